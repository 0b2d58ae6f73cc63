"""What a model hub's client left beside the files it downloaded: their revision and digests.

Owns two layouts of huggingface_hub: the shared cache (`snapshots/<revision>/` of links into
`blobs/`, large files named by their SHA-256) and a local directory (`.cache/huggingface/download/
<file>.metadata`: revision, then the file's digest). Reads files only; knows no network.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from systone.errors import ConfigError

__all__ = ["HubFiles", "hub_files"]

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_METADATA = Path(".cache", "huggingface", "download")


@dataclass(frozen=True, slots=True)
class HubFiles:
    """`digests`: file name -> SHA-256, for the files whose digest the client recorded."""

    revision: str
    digests: dict[str, str]


def hub_files(directory: Path) -> HubFiles | None:
    """None when no client's traces are there. Raises ConfigError for a link out of the cache, or
    for files of more than one revision."""
    directory = directory.absolute()
    if directory.parent.name == "snapshots" and _COMMIT.fullmatch(directory.name):
        return HubFiles(directory.name, _blob_names(directory))
    _refuse_links(directory)
    return _local(directory)


def _blob_names(directory: Path) -> dict[str, str]:
    blobs = (directory.parent.parent / "blobs").resolve()
    digests: dict[str, str] = {}
    for path in sorted(directory.iterdir()):
        target = path.resolve()
        if path.is_symlink() and target.parent != blobs:
            raise ConfigError(f"{path}: a link that leads out of the hub's cache")
        if path.is_symlink() and _SHA256.fullmatch(target.name):
            digests[path.name] = target.name
    return digests


def _refuse_links(directory: Path) -> None:
    root = directory.resolve()
    for path in sorted(directory.iterdir()):
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise ConfigError(f"{path}: a link that leads out of {directory}")


def _local(directory: Path) -> HubFiles | None:
    revisions: set[str] = set()
    digests: dict[str, str] = {}
    for path in sorted((directory / _METADATA).glob("*.metadata")):
        lines = path.read_text(encoding="utf-8").split()
        if len(lines) < 2 or not _COMMIT.fullmatch(lines[0]):
            raise ConfigError(f"{path}: not a hub client's metadata")
        revisions.add(lines[0])
        if _SHA256.fullmatch(lines[1]):
            digests[path.name.removesuffix(".metadata")] = lines[1]
    if len(revisions) > 1:
        raise ConfigError(f"{directory}: files of more than one revision: {sorted(revisions)}")
    return HubFiles(revisions.pop(), digests) if revisions else None
