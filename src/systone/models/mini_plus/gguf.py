"""Reads a GGUF file: its metadata, and its tensors dequantised to float32.

Owns the container format (little-endian, version 2 or 3) and the block formats F32, F16, Q8_0 and
Q4_1; knows no model. Formats: the ggml project's GGUF specification and block layouts.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from systone.errors import ConfigError

__all__ = ["GgufFile", "read_gguf"]

# Value types of metadata by their number; 8 is a string and 9 an array.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?"}
_SCALARS |= {10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

_BLOCK = 32  # weights of one quantised block
# Tensor types by their number: bytes of a block, weights of a block.
_BLOCKS = {0: (4, 1), 1: (2, 1), 3: (20, _BLOCK), 8: (34, _BLOCK)}


@dataclass(frozen=True, slots=True)
class _TensorInfo:
    shape: tuple[int, ...]  # outermost axis first
    kind: int
    offset: int  # from the start of the file


@dataclass(frozen=True, slots=True)
class GgufFile:
    """An open GGUF file: `metadata` by key; tensors are read on demand from the mapped bytes."""

    metadata: Mapping[str, Any]
    _tensors: Mapping[str, _TensorInfo]
    _data: mmap.mmap

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors' names, in file order."""
        return tuple(self._tensors)

    def tensor(self, name: str) -> NDArray[np.float32]:
        """A tensor dequantised to float32, outermost axis first: a matrix is [out, in].

        Raises ConfigError when the file has no such tensor, or of a type not supported."""
        info = self._tensors.get(name)
        if info is None:
            raise ConfigError(f"the GGUF file has no tensor {name!r}")
        if info.kind not in _BLOCKS:
            raise ConfigError(f"tensor {name!r} has the unsupported GGUF type {info.kind}")
        size, weights = _BLOCKS[info.kind]
        num_blocks = prod(info.shape) // weights
        raw = np.frombuffer(self._data, np.uint8, num_blocks * size, info.offset)
        return _dequantise(raw.reshape(num_blocks, size), info.kind).reshape(info.shape)

    def close(self) -> None:
        """Unmap the file; tensors already read stay valid."""
        self._data.close()


def _dequantise(blocks: NDArray[np.uint8], kind: int) -> NDArray[np.float32]:
    """Weights [blocks, per block] from their bytes; a fresh array, never a view of the file."""
    if kind in (0, 1):
        return blocks.view(np.float32 if kind == 0 else np.float16).astype(np.float32)
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    if kind == 8:  # one scale, 32 signed bytes
        return blocks[:, 2:].view(np.int8).astype(np.float32) * scale
    # Q4_1: scale, minimum, 16 bytes that hold weight i in the low and i + 16 in the high half
    minimum = blocks[:, 2:4].copy().view(np.float16).astype(np.float32)
    packed = blocks[:, 4:]
    values = np.empty((len(blocks), _BLOCK), np.float32)
    values[:, :16] = packed & 15
    values[:, 16:] = packed >> 4
    values *= scale
    values += minimum
    return values


class _Cursor:
    """A position in the file's bytes that reads the container's primitive values."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self.data, self.at)
        self.at += struct.calcsize(f"<{code}")
        return value

    def string(self) -> str:
        size = self.scalar("Q")
        if self.at + size > len(self.data):
            raise ConfigError("the GGUF file ends inside a string")
        raw = self.data[self.at : self.at + size]
        self.at += size
        return raw.decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            return self.scalar(_SCALARS[kind])
        item, count = self.scalar("I"), self.scalar("Q")
        if item in _SCALARS:
            code = f"<{count}{_SCALARS[item]}"
            values = struct.unpack_from(code, self.data, self.at)
            self.at += struct.calcsize(code)
            return list(values)
        return [self.value(item) for _ in range(count)]


def read_gguf(path: Path) -> GgufFile:
    """Open a GGUF file and read everything but its tensors' data.

    Raises ConfigError when the file is not GGUF version 2 or 3, is cut short or malformed."""
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        return _read(data)
    except (struct.error, UnicodeDecodeError, KeyError, IndexError) as error:
        raise ConfigError(f"{path.name} is not a readable GGUF file: {error}") from error


def _read(data: mmap.mmap) -> GgufFile:
    cursor = _Cursor(data)
    magic, version = data[:4], struct.unpack_from("<I", data, 4)[0]
    if magic != b"GGUF" or version not in (2, 3):
        raise ConfigError(f"not a GGUF file of version 2 or 3 (magic {magic!r}, {version})")
    cursor.at = 8
    num_tensors, num_values = cursor.scalar("Q"), cursor.scalar("Q")
    metadata = {}
    for _ in range(num_values):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.scalar("I"))
    found = [_read_info(cursor) for _ in range(num_tensors)]
    alignment = metadata.get("general.alignment", 32)
    start = -(-cursor.at // alignment) * alignment
    tensors = {}
    for name, info in found:
        size, weights = _BLOCKS.get(info.kind, (0, 1))
        if start + info.offset + prod(info.shape) // weights * size > len(data):
            raise ConfigError(f"the GGUF file ends inside tensor {name!r}")
        tensors[name] = _TensorInfo(info.shape, info.kind, start + info.offset)
    return GgufFile(metadata, tensors, data)


def _read_info(cursor: _Cursor) -> tuple[str, _TensorInfo]:
    name = cursor.string()
    shape = tuple(cursor.scalar("Q") for _ in range(cursor.scalar("I")))
    kind, offset = cursor.scalar("I"), cursor.scalar("Q")
    return name, _TensorInfo(shape[::-1], kind, offset)
