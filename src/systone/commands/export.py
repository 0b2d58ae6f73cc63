"""`systone export`: merge a package into a directory of its own. Loads torch when it runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from systone.weights.extra import require_torch
from systone.weights.progress import progress_bar

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.description = "Merge a package's LoRA into its base and write the served form."
    parser.add_argument(
        "package", type=Path, help="package, or a directory with base/ and package/"
    )
    parser.add_argument("out", type=Path, help="new directory for the merged model")
    parser.add_argument("--base", type=Path, help="the base checkpoint's directory")
    parser.add_argument(
        "--base-revision", help="your word for a base that carries no proof of its revision"
    )
    parser.add_argument(
        "--merge",
        choices=("contract", "double-rounding", "single-rounding"),
        default="contract",
        help="bf16(W + bf16(2BA)), bf16(W + 2BA), or as the model's authors merge (default)",
    )
    parser.add_argument("--device", default="cpu", help="where to merge; the bits are the same")


def run(args: argparse.Namespace) -> int:
    """Raises ConfigError for anything that can't be read, proven or written."""
    require_torch("systone export")
    from systone.weights.export import export

    with progress_bar() as report:
        made = export(
            args.package,
            args.out,
            base=args.base,
            base_revision=args.base_revision,
            merge=args.merge,
            device=args.device,
            progress=report,
        )
    sys.stdout.write(f"{made.manifest.model} in {made.directory}: {made.num_bytes:,} bytes\n")
    if (peft := made.peft) is not None:
        sys.stdout.write(
            f"differs from PEFT's merge in {peft.differing:,} of {peft.total:,} adapted values, "
            f"by at most {peft.max_ulp} bf16 steps\n"
        )
    return 0
