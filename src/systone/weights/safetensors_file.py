"""One safetensors file: a checked header, and tensors as views on a private memory map.

Owns the file format (8 length bytes, a JSON header, back-to-back data) and refuses anything that
isn't exactly that; knows no model. Reading a tensor copies nothing. Sizes are bytes.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from systone.errors import ConfigError
from systone.weights.dtypes import SIZES, TORCH

__all__ = ["Entry", "SafetensorsFile"]

_MAX_HEADER = 100_000_000  # the format's own limit


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one tensor lies: `begin` and `end` count from the start of the data section."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def num_bytes(self) -> int:
        return self.end - self.begin


class SafetensorsFile:
    """An open file; `entries` in data order. Raises ConfigError naming the file when malformed.

    Tensors are views on the map: they stay valid while referenced, and writing to one never
    reaches the file (the map is copy-on-write).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(0)
                header, self._data = _read_header(path, file.read(8), file, size)
                self.entries = _entries(path, header, size - self._data)
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except OSError as error:
            raise ConfigError(f"{path}: can't be read ({error.strerror})") from None

    def tensor(self, name: str) -> torch.Tensor:
        """The tensor as stored, a view; KeyError for a name that isn't in `entries`."""
        entry = self.entries[name]
        dtype = TORCH[entry.dtype]
        count = entry.num_bytes // dtype.itemsize
        if count == 0:
            return torch.empty(entry.shape, dtype=dtype)
        start = self._data + entry.begin
        return torch.frombuffer(self._map, dtype=dtype, count=count, offset=start).view(entry.shape)


def _read_header(path: Path, lead: bytes, file: Any, size: int) -> tuple[dict[str, Any], int]:
    if len(lead) < 8:
        raise ConfigError(f"{path}: {len(lead)} bytes are no safetensors file")
    length = int.from_bytes(lead, "little")
    if length > min(_MAX_HEADER, size - 8):
        raise ConfigError(f"{path}: header of {length} bytes in a file of {size}: truncated")
    try:
        header = json.loads(file.read(length), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: safetensors header is not JSON ({error})") from None
    if not isinstance(header, dict):
        raise ConfigError(f"{path}: safetensors header is not an object")
    header.pop("__metadata__", None)
    return header, 8 + length


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name appears twice")
    return made


def _entries(path: Path, header: Mapping[str, Any], data_size: int) -> dict[str, Entry]:
    """Entries by rising offset; every byte of the data section belongs to exactly one tensor."""
    entries = {name: _entry(path, name, fields) for name, fields in header.items()}
    ordered = dict(sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)))
    position = 0
    for name, entry in ordered.items():
        if entry.begin != position:
            raise ConfigError(f"{path}: tensor {name!r} starts at {entry.begin}, not {position}")
        position = entry.end
    if position != data_size:
        raise ConfigError(f"{path}: header describes {position} bytes of data, found {data_size}")
    return ordered


def _entry(path: Path, name: str, fields: Any) -> Entry:
    try:
        dtype, shape, (begin, end) = fields["dtype"], tuple(fields["shape"]), fields["data_offsets"]
        numbers = (*shape, begin, end)
    except (KeyError, TypeError, ValueError):
        raise ConfigError(f"{path}: tensor {name!r} has a malformed header entry") from None
    if not isinstance(dtype, str) or dtype not in SIZES:
        raise ConfigError(f"{path}: tensor {name!r} has dtype {dtype!r}, which is not supported")
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ConfigError(f"{path}: tensor {name!r} has a malformed shape or offsets")
    count = SIZES[dtype]
    for axis in shape:
        count *= axis
    if end - begin != count:
        raise ConfigError(f"{path}: tensor {name!r} takes {end - begin} bytes, its shape {count}")
    return Entry(dtype, shape, begin, end)
