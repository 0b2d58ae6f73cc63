"""The manifest of a directory of weights: what must be in it, byte for byte.

Owns the file `systone_manifest.json`, its checks and nothing else: no tensors are read here. A
directory is accepted when its files are exactly those listed, every SHA-256 agrees and no link
leads out of it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from systone.errors import ConfigError
from systone.weights.progress import Report, silent

__all__ = ["FORMAT", "MANIFEST_NAME", "Manifest", "file_sha256", "hash_files", "list_files"]

MANIFEST_NAME = "systone_manifest.json"
FORMAT = "systone-manifest/1"
_BLOCK = 8 << 20

Kind = Literal["base", "package", "export"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a directory claims to be and the proof. `files`: path -> SHA-256; `tensors`: stored
    name -> [dtype, shape] over all its safetensors files; `merge` is empty but for exports."""

    kind: Kind
    model: str  # package name, for example open-jev-9b; empty for a base of no known package
    model_id: str  # the base's hub id
    base_revision: str
    files: Mapping[str, str]
    tensors: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    checkpoint_revision: str = ""
    temperature: float | None = None
    max_length: int | None = None
    synthetic: bool = False
    merge: Mapping[str, str] = field(default_factory=dict)
    tokenizer: Mapping[str, str] = field(default_factory=dict)

    def write(self, directory: Path) -> None:
        """Write the manifest beside what it lists; the last file of a directory to be written."""
        fields = asdict(self) | {"files": dict(sorted(self.files.items()))}
        text = json.dumps({"format": FORMAT, **fields}, indent=1, ensure_ascii=False)
        (directory / MANIFEST_NAME).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Manifest:
        """Raises ConfigError naming the file when it is missing or not of this format."""
        path = directory / MANIFEST_NAME
        try:
            fields = json.loads(path.read_bytes())
            if fields.pop("format") != FORMAT:
                raise ValueError("unknown format")
            fields["tensors"] = {
                name: (str(dtype), tuple(shape))
                for name, (dtype, shape) in fields["tensors"].items()
            }
            made = cls(**fields)
        except OSError as error:
            raise ConfigError(f"{path}: can't be read ({error.strerror})") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConfigError(f"{path}: not a {FORMAT} manifest") from None
        made._check(path)
        return made

    def _check(self, path: Path) -> None:
        if self.kind not in ("base", "package", "export") or not isinstance(self.files, dict):
            raise ConfigError(f"{path}: not a {FORMAT} manifest")
        for name, digest in self.files.items():
            inside = not Path(name).is_absolute() and ".." not in Path(name).parts
            if not (inside and isinstance(digest, str) and len(digest) == 64):
                raise ConfigError(f"{path}: malformed entry for {name!r}")

    def verify(self, directory: Path, report: Report = silent) -> None:
        """Check file set, links and hashes. Raises ConfigError naming the first wrong file."""
        found = list_files(directory) - {MANIFEST_NAME}
        for name in sorted(self.files.keys() - found):
            raise ConfigError(f"{directory / name}: listed in the manifest, but missing")
        for name in sorted(found - self.files.keys()):
            raise ConfigError(f"{directory / name}: not listed in the manifest")
        for name, digest in hash_files(directory, self.files, report).items():
            if digest != self.files[name]:
                raise ConfigError(f"{directory / name}: SHA-256 differs from the manifest's")

    def check_tensors(self, directory: Path, found: Mapping[str, Any]) -> None:
        """`found`: stored name -> an entry with `dtype` and `shape`. Raises ConfigError."""
        for name in sorted(self.tensors.keys() ^ found.keys()):
            where = "the manifest" if name in self.tensors else "the files"
            raise ConfigError(f"{directory}: tensor {name!r} is only in {where}")
        for name, entry in found.items():
            if (entry.dtype, entry.shape) != self.tensors[name]:
                raise ConfigError(f"{directory}: tensor {name!r} differs from the manifest's")


def list_files(directory: Path) -> set[str]:
    """Relative paths of all files below. A link that leads out of the directory is refused."""
    if not directory.is_dir():
        raise ConfigError(f"{directory}: no such directory")
    root = directory.resolve()
    found: set[str] = set()
    for parent, folders, files in os.walk(directory):
        for name in [*folders, *files]:
            path = Path(parent, name)
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                raise ConfigError(f"{path}: a link that leads out of {directory}")
            if path.is_symlink() and path.is_dir():
                raise ConfigError(f"{path}: a link to a directory")
        found |= {Path(parent, name).relative_to(directory).as_posix() for name in files}
    return found


def hash_files(
    directory: Path, names: Mapping[str, Any] | set[str], report: Report = silent
) -> dict[str, str]:
    """SHA-256 of each named file, several at a time."""
    paths = {name: directory / name for name in names}
    total = sum(_size(path) for path in paths.values())
    done = [0]  # += on an int would be lost between threads only in the display

    def advance(num_bytes: int) -> None:
        done[0] += num_bytes
        report("verifying", done[0], total)

    with ThreadPoolExecutor(max_workers=4) as pool:
        digests = pool.map(lambda path: file_sha256(path, advance), paths.values())
        return dict(zip(paths, digests, strict=True))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror})") from None


def file_sha256(path: Path, advance: Callable[[int], None] | None = None) -> str:
    """Hex SHA-256 of one file. Raises ConfigError when it can't be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                if advance is not None:
                    advance(len(block))
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror})") from None
    return digest.hexdigest()
