"""Where a run happened: Python, libraries, processor, GPU, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from systone.bench.probe import gpu_facts

__all__ = ["environment"]

_PACKAGES = (
    "systone",
    "torch",
    "triton",
    "transformers",
    "tokenizers",
    "numpy",
    "uvicorn",
    "uvloop",
    "httptools",
    "onnxruntime",
)


def environment(commit: str | None) -> dict[str, Any]:
    """`commit`: given, or the one of the source tree this package runs from; None elsewhere."""
    gpu = gpu_facts()
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "packages": {name: _version(name) for name in _PACKAGES},
        "gpu": gpu["name"],
        "driver": gpu["driver"],
        "commit": commit or _commit(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit checked out, with `+` if files of the package differ from it."""
    here = Path(__file__).parent.parent
    head = _git(here, "rev-parse", "HEAD")
    if head is None:
        return None
    return head + ("+" if _git(here, "status", "--porcelain", "--", ".") else "")


def _git(directory: Path, *args: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *args], cwd=directory, capture_output=True, text=True, check=False
        )
    except OSError:
        return None  # no git here
    return done.stdout.strip() if done.returncode == 0 else None
