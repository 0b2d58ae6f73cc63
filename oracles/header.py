"""What a golden file says about where it came from: libraries, files, numerics, seed."""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

FORMAT = "systone-oracle/1"
_LIBRARIES = ("torch", "transformers", "peft", "tokenizers", "safetensors")
_OFFICIAL = (".safetensors", ".json", ".pt")


def header(directory: Path, mode: str, seed: int | None) -> dict[str, Any]:
    """`files`: one SHA-256 per directory, over the names and hashes of its official files."""
    return {
        "format": FORMAT,
        "mode": mode,
        "seed": seed,
        "device": "cpu",
        "attention": "sdpa",
        "gated_delta_rule": "torch",
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in _LIBRARIES},
        "files": {
            name: tree_hash(directory / name)
            for name in ("base", "package", ".")  # an export has neither of the first two
            if (directory / name).is_dir() and (name != "." or not (directory / "base").is_dir())
        },
    }


def tree_hash(directory: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        # Our own manifest describes the files; it is none of them.
        if path.suffix in _OFFICIAL and path.name != "systone_manifest.json":
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            total.update(f"{path.relative_to(directory).as_posix()}\0{digest}\n".encode())
    return total.hexdigest()
