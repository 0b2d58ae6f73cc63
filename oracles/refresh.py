"""Rewrite the golden files of the tiny synthetic checkpoints.

    python -m oracles.refresh tests/golden

Reads DIRECTORY/requests/*.json and writes DIRECTORY/{package}.{mode}.{request}.json. The only
oracle module that uses `systone`: to draw the checkpoints, never to compute an answer.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from oracles.checkpoint import Mode, load
from oracles.header import header
from oracles.open_jev import capture, write
from systone.weights.synth import synthesize

PACKAGES = {"open-jev-9b": 1, "open-jev-27b-v1.1": 2}  # name -> seed
GOLDEN_MODES: tuple[Mode, ...] = ("fp32", "bf16", "unmerged")


def refresh(directory: Path) -> None:
    """Every package, mode and request; the checkpoints are thrown away afterwards."""
    requests = {
        path.stem: json.loads(path.read_bytes())
        for path in sorted((directory / "requests").glob("*.json"))
    }
    with tempfile.TemporaryDirectory() as scratch:
        for package, seed in PACKAGES.items():
            checkpoint = synthesize(package, "tiny", seed, Path(scratch) / package)
            for mode in GOLDEN_MODES:
                official = load(checkpoint, mode)
                head = header(checkpoint, mode, seed)
                for name, request in requests.items():
                    golden = {"header": head, "request": request, **capture(official, request)}
                    write(directory / f"{package}.{mode}.{name}.json", golden)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="rewrite golden files of tiny checkpoints")
    parser.add_argument("directory", type=Path, help="holds requests/, receives the golden files")
    refresh(parser.parse_args().directory)
