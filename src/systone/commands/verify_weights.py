"""`systone verify-weights`: prove a directory of weights without serving it, or pin it.

Loads torch when it runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from systone.weights.extra import require_torch
from systone.weights.progress import progress_bar

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.description = "Check hashes, file set, names, shapes and dtypes of weights on disk."
    parser.add_argument("path", type=Path, help="package, export, or directory with both parts")
    parser.add_argument("--base", type=Path, help="the base checkpoint's directory")
    parser.add_argument(
        "--base-revision", help="your word for a base that carries no proof of its revision"
    )
    parser.add_argument(
        "--pin",
        action="store_true",
        help="trust the files as they are now: write their manifest (base, package or export)",
    )
    parser.add_argument("--revision", help="with --pin: the revision these files are")


def run(args: argparse.Namespace) -> int:
    """Raises ConfigError: the first thing that is wrong, naming the file."""
    require_torch("systone verify-weights")
    with progress_bar() as report:
        if args.pin:
            from systone.weights.pin import pin

            made = pin(args.path, args.revision, report)
            sys.stdout.write(f"pinned {len(made.files)} files of a {made.kind} in {args.path}\n")
            return 0
        from systone.weights.served import prove

        verified = prove(args.path, args.base, args.base_revision, report)
    sys.stdout.write(f"{args.path}: {verified}\n")
    return 0
