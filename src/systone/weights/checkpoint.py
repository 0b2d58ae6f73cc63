"""A base checkpoint on disk: its text tensors, checked name by name, read one at a time.

Owns the mapping from stored files to canonical tensors. Knows no adapters, no heads, no hashes.
Nothing is copied when a tensor is read: it is a view on the file's private memory map.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from systone.errors import ConfigError
from systone.nn.config import TextConfig
from systone.weights.safetensors_file import Entry, SafetensorsFile
from systone.weights.shapes import canonical, text_tensors
from systone.weights.writer import INDEX_NAME

__all__ = ["Checkpoint", "open_checkpoint", "read_json", "refuse_shadows"]

SINGLE_NAME = "model.safetensors"
# Files some loader would take weights from; one that isn't listed could be served unverified.
_WEIGHT_SUFFIXES = (
    ".safetensors",
    ".bin",
    ".pt",
    ".pth",
    ".ckpt",
    ".gguf",
    ".h5",
    ".msgpack",
    ".onnx",
    ".index.json",
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`stored`: every tensor of the files by stored name; `names`: canonical -> stored name."""

    directory: Path
    config: TextConfig
    files: tuple[SafetensorsFile, ...]
    stored: Mapping[str, Entry]
    names: Mapping[str, str]
    _homes: Mapping[str, SafetensorsFile]

    def tensor(self, name: str) -> torch.Tensor:
        """The text tensor with that canonical name, as stored: a view, to be copied or moved."""
        stored = self.names[name]
        return self._homes[stored].tensor(stored)

    @property
    def views(self) -> bool:
        """Tensors are views on the files."""
        return True

    @property
    def num_bytes(self) -> int:
        """Of the text tensors."""
        return sum(self.stored[stored].num_bytes for stored in self.names.values())


def open_checkpoint(path: Path | str) -> Checkpoint:
    """Open a base or an export and check all its text tensors against `config.json`.

    Raises ConfigError naming file and tensor: a malformed file, a tensor missing, unexpected,
    stored twice, or of another shape or dtype; an index that disagrees with its shards; weight
    files beside the listed ones. Vision, MTP and lm_head tensors are skipped.
    """
    directory = Path(path)
    config = TextConfig.from_json(read_json(directory / "config.json"))
    files, index = _files(directory)
    homes: dict[str, SafetensorsFile] = {}
    for file in files:
        for name in file.entries:
            if name in homes:
                raise ConfigError(
                    f"{file.path}: tensor {name!r} is also in {homes[name].path.name}"
                )
            homes[name] = file
    if index is not None:
        _check_index(directory / INDEX_NAME, index, homes)
    stored = {name: file.entries[name] for name, file in homes.items()}
    names = _match(directory, config, homes, stored)
    return Checkpoint(directory, config, tuple(files), stored, names, homes)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises ConfigError naming the file."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{path}: not JSON") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: not a JSON object")
    return value


def refuse_shadows(directory: Path, known: set[str]) -> None:
    """Refuse weight files directly in `directory` whose names aren't in `known`."""
    for path in sorted(directory.iterdir()):
        if path.name not in known and path.name.lower().endswith(_WEIGHT_SUFFIXES):
            raise ConfigError(f"{path}: a weight file that nothing lists; remove it")


def _files(directory: Path) -> tuple[list[SafetensorsFile], dict[str, str] | None]:
    """The files that hold the weights, and the index's weight map when there is one."""
    index_path = directory / INDEX_NAME
    if not index_path.exists():
        refuse_shadows(directory, {SINGLE_NAME})
        return [SafetensorsFile(directory / SINGLE_NAME)], None
    weight_map = read_json(index_path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ConfigError(f"{index_path}: no weight_map")
    names = set(weight_map.values())
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise ConfigError(f"{index_path}: {name!r} is not a file name")
    refuse_shadows(directory, {INDEX_NAME, *names})
    return [SafetensorsFile(directory / name) for name in sorted(names)], weight_map


def _check_index(path: Path, index: dict[str, str], homes: Mapping[str, SafetensorsFile]) -> None:
    for name, file_name in index.items():
        if name not in homes or homes[name].path.name != file_name:
            raise ConfigError(f"{path}: tensor {name!r} is not in {file_name}")
    for name, file in homes.items():
        if name not in index:
            raise ConfigError(f"{file.path}: tensor {name!r} is not in {path.name}")


def _match(
    directory: Path,
    config: TextConfig,
    homes: Mapping[str, SafetensorsFile],
    stored: Mapping[str, Entry],
) -> dict[str, str]:
    expected = text_tensors(config)
    names: dict[str, str] = {}
    for name, file in homes.items():
        short = canonical(name)
        if short is None:
            continue
        if short not in expected:
            raise ConfigError(f"{file.path}: unexpected tensor {name!r}")
        if short in names:
            raise ConfigError(f"{file.path}: tensor {name!r} is also stored as {names[short]!r}")
        entry, want = stored[name], expected[short]
        if entry.shape != want.shape:
            raise ConfigError(
                f"{file.path}: tensor {name!r} has shape {list(entry.shape)}, "
                f"not {list(want.shape)}"
            )
        if entry.dtype not in want.dtypes:
            raise ConfigError(
                f"{file.path}: tensor {name!r} has dtype {entry.dtype}, not {want.dtypes[0]}"
            )
        names[short] = name
    for short in expected:
        if short not in names:
            raise ConfigError(f"{directory}: tensor {short!r} is missing")
    return {short: names[short] for short in expected}
