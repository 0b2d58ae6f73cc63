"""Rewrite the golden files of the tiny synthetic Kevs.

    python -m oracles.kev_refresh tests/golden

Reads DIRECTORY/kev_requests/*.json and writes DIRECTORY/{package}.{mode}.{request}.json, and
DIRECTORY/{package}.merge.json (see kev_merge). Uses `systone` only to draw the checkpoints and to
say where its merge differs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from oracles.header import header
from oracles.kev import MODES, capture, load
from oracles.kev_merge import merge_differences
from oracles.open_jev import write
from systone.weights.synth import synthesize

PACKAGES = {"kev-4b": 1, "kev-0.8b": 2}  # name -> seed


def refresh(directory: Path) -> None:
    """Every package, mode and request; the checkpoints are thrown away afterwards."""
    requests = {
        path.stem: json.loads(path.read_bytes())
        for path in sorted((directory / "kev_requests").glob("*.json"))
    }
    with tempfile.TemporaryDirectory() as scratch:
        for package, seed in PACKAGES.items():
            checkpoint = synthesize(package, "tiny", seed, Path(scratch) / package)
            for mode in MODES:
                official = load(checkpoint, mode)
                head = header(checkpoint, mode, seed)
                if mode == "merged":
                    listed = {"header": head, **merge_differences(checkpoint, official)}
                    path = directory / f"{package}.merge.json"
                    path.write_text(json.dumps(listed, indent=1) + "\n")
                for name, request in requests.items():
                    golden = {"header": head, "request": request, **capture(official, request)}
                    write(directory / f"{package}.{mode}.{name}.json", golden)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="rewrite golden files of tiny Kev checkpoints")
    parser.add_argument("directory", type=Path, help="holds kev_requests/, receives the files")
    refresh(parser.parse_args().directory)
