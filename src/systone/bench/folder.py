"""A run's folder: its files, and the manifest that pins every byte of them.

run.json        what was run: plan, workload, targets, environment, server's modes, samples
items.json      the sizes of every request of the workload
records.jsonl.xz  one line per request sent
figures.json    every figure; tables.md the same for people; *.png plots
manifest.json   SHA-256 of each of them

The log of a server started for the run names this machine's paths, so it lies beside the folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from systone.errors import ConfigError

__all__ = ["FORMAT", "MANIFEST", "dump", "manifest_bytes", "new_folder", "write_folder"]

FORMAT = "systone-bench/2"
MANIFEST = "manifest.json"


def new_folder(path: Path) -> Path:
    """Make the folder. Raises ConfigError unless it is new or empty."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise ConfigError(f"--out {path}: is not empty")
    except OSError as error:
        raise ConfigError(f"--out {path}: {error.strerror}") from None
    return path


def write_folder(path: Path, files: Mapping[str, bytes]) -> str:
    """Write the files, then the manifest over everything in the folder; the manifest's digest."""
    for name, data in files.items():
        (path / name).write_bytes(data)
    manifest = manifest_bytes(path)
    (path / MANIFEST).write_bytes(manifest)
    return hashlib.sha256(manifest).hexdigest()


def manifest_bytes(path: Path) -> bytes:
    """The manifest of a folder as it is now."""
    files = {
        file.relative_to(path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.relative_to(path).as_posix() != MANIFEST
    }
    return dump({"format": FORMAT, "files": files})


def dump(value: Any) -> bytes:
    """JSON as it is written to the folder: one form per value."""
    return json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False).encode() + b"\n"
