"""`systone synth`: write a synthetic package in the official layout. Loads torch when it runs."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from systone.weights.extra import require_torch
from systone.weights.progress import progress_bar

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.description = "Write random weights in the official file layout of a package."
    parser.add_argument("name", help="for example open-jev-9b, kev-4b or laya")
    parser.add_argument("--size", choices=("tiny", "full"), required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, required=True, help="new directory for base and package"
    )


def run(args: argparse.Namespace) -> int:
    """Raises ConfigError for an unknown name or a directory that isn't new."""
    require_torch("systone synth")
    from systone.weights.synth import synthesize
    from systone.weights.synth.laya import synthesize_laya

    began = time.monotonic()
    with progress_bar() as report:
        if args.name == "laya":  # one directory: an encoder has no base and no package
            out = synthesize_laya(args.size, args.seed, args.out, progress=report)
        else:
            out = synthesize(args.name, args.size, args.seed, args.out, progress=report)
    seconds = time.monotonic() - began
    sys.stdout.write(f"{args.name} ({args.size}, seed {args.seed}) in {out}: {seconds:.1f} s\n")
    return 0
