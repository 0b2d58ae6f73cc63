"""What a model hub's client left beside the files it downloaded: their revision and digests.

Owns two layouts of huggingface_hub: the shared cache (`snapshots/<revision>/` of links into
`blobs/`, each named by its digest) and a local directory (`.cache/huggingface/download/
<file>.metadata`: revision, then the file's digest). A digest is SHA-256 for large files and git's
blob SHA-1 for the others. Reads files only; knows no network.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from systone.errors import ConfigError
from systone.weights.manifest import hash_files
from systone.weights.progress import Report, silent

__all__ = ["HubFiles", "check_digests", "hub_files"]

_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_METADATA = Path(".cache", "huggingface", "download")
# What a load reads; all of it must have a digest.
_READ = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors.index.json")


@dataclass(frozen=True, slots=True)
class HubFiles:
    """`digests`: name of a file directly in the directory -> its digest."""

    revision: str
    digests: Mapping[str, str]


def hub_files(directory: Path) -> HubFiles | None:
    """None when no client's traces are there. Raises ConfigError for a link out of the cache, or
    for files of more than one revision."""
    directory = directory.absolute()
    if directory.parent.name == "snapshots" and _COMMIT.fullmatch(directory.name):
        return HubFiles(directory.name, _blob_names(directory))
    _refuse_links(directory)
    return _local(directory)


def check_digests(directory: Path, hub: HubFiles, report: Report = silent) -> None:
    """Check every file a load reads. Raises ConfigError naming the first that is wrong."""
    for path in sorted(directory.iterdir()):
        read = path.name in _READ or path.suffix == ".safetensors"
        if read and path.name not in hub.digests:
            raise ConfigError(f"{path}: the hub's client recorded no digest for it")
    large = {name: digest for name, digest in hub.digests.items() if len(digest) == 64}
    found = hash_files(directory, large, report)
    for name, digest in hub.digests.items():
        actual = found[name] if name in found else _git_blob(directory / name)
        if actual != digest:
            raise ConfigError(f"{directory / name}: differs from the digest of the hub's client")


def _blob_names(directory: Path) -> dict[str, str]:
    blobs = (directory.parent.parent / "blobs").resolve()
    digests: dict[str, str] = {}
    for path in sorted(directory.iterdir()):
        target = path.resolve()
        if path.is_symlink() and target.parent != blobs:
            raise ConfigError(f"{path}: a link that leads out of the hub's cache")
        if path.is_symlink() and _DIGEST.fullmatch(target.name):
            digests[path.name] = target.name
    return digests


def _refuse_links(directory: Path) -> None:
    if not directory.is_dir():
        raise ConfigError(f"{directory}: no such directory")
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
        name = path.name.removesuffix(".metadata")
        if not (directory / name).is_file():
            continue  # a record of a file that was removed since
        revisions.add(lines[0])
        if _DIGEST.fullmatch(lines[1]):
            digests[name] = lines[1]
    if len(revisions) > 1:
        raise ConfigError(f"{directory}: files of more than one revision: {sorted(revisions)}")
    return HubFiles(revisions.pop(), digests) if revisions else None


def _git_blob(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror})") from None
    digest = hashlib.sha1(f"blob {len(content)}\0".encode(), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()
