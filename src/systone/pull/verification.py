"""Whether a fetched file is the published one. Knows no network. Sizes are bytes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from systone.weights.manifest import file_sha256

__all__ = ["RemoteFile", "differs"]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """`digest`: what the hub lists, SHA-256 (64 digits) or git's blob SHA-1 (40); `pin`: a
    published SHA-256, whole or its first digits, or empty."""

    path: str
    size: int
    digest: str
    pin: str = ""


def differs(path: Path, file: RemoteFile) -> str:
    """What is wrong with the file at `path`, in words; empty when nothing is.

    Raises ConfigError when it can't be read."""
    found = path.stat().st_size
    if found != file.size:
        return f"has {found} bytes, the hub lists {file.size}"
    large = len(file.digest) == 64
    sha256 = file_sha256(path) if file.pin or large else ""
    if file.pin and not sha256.startswith(file.pin):
        return f"doesn't have the published SHA-256 {file.pin}"
    if (sha256 if large else _git_blob(path)) != file.digest:
        return "differs from the digest the hub lists"
    return ""


def _git_blob(path: Path) -> str:
    content = path.read_bytes()
    digest = hashlib.sha1(b"blob %d\0" % len(content), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()
