"""Writes sharded safetensors one tensor at a time, with their index.

Owns the output side of the format: at no moment is more than one tensor held. Knows no model.
Sizes are bytes. Every file's SHA-256 is computed as it is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from systone.weights.dtypes import NAMES, SIZES
from systone.weights.progress import Report, silent

__all__ = ["INDEX_NAME", "Planned", "write_sharded", "write_single"]

INDEX_NAME = "model.safetensors.index.json"
_BLOCK = 64 << 20  # written and hashed at a time


@dataclass(frozen=True, slots=True)
class Planned:
    """A tensor to be written: its stored name, dtype (safetensors' spelling) and shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        size = SIZES[self.dtype]
        for axis in self.shape:
            size *= axis
        return size


Produce = Callable[[str], torch.Tensor]


def write_sharded(
    directory: Path,
    planned: Sequence[Planned],
    produce: Produce,
    *,
    max_shard_bytes: int = 4 << 30,
    report: Report = silent,
    step: str = "writing",
) -> dict[str, str]:
    """Write `model-XXXXX-of-XXXXX.safetensors` and the index; file name -> SHA-256.

    `produce(name)` gives each tensor when its turn comes, in exactly the planned dtype and shape.
    A tensor larger than `max_shard_bytes` gets a shard of its own.
    """
    shards = _split(planned, max_shard_bytes)
    total = sum(tensor.num_bytes for tensor in planned)
    hashes: dict[str, str] = {}
    weight_map: dict[str, str] = {}
    done = 0

    def advance(num_bytes: int) -> None:
        nonlocal done
        done += num_bytes
        report(step, done, total)

    for number, shard in enumerate(shards, start=1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        hashes[name] = write_single(directory / name, shard, produce, advance=advance)
        weight_map |= {tensor.name: name for tensor in shard}
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    text = (json.dumps(index, indent=2) + "\n").encode()
    (directory / INDEX_NAME).write_bytes(text)
    hashes[INDEX_NAME] = hashlib.sha256(text).hexdigest()
    return hashes


def write_single(
    path: Path,
    planned: Sequence[Planned],
    produce: Produce,
    *,
    advance: Callable[[int], None] | None = None,
) -> str:
    """Write one safetensors file; its SHA-256."""
    # Wide types first, so that each tensor starts at a multiple of its element size.
    ordered = sorted(planned, key=lambda tensor: -SIZES[tensor.dtype])
    digest = hashlib.sha256()
    with path.open("wb") as file:
        head = _header(ordered)
        digest.update(head)
        file.write(head)
        for tensor in ordered:
            for block in _blocks(tensor, produce(tensor.name)):
                digest.update(block)
                file.write(block)
                if advance is not None:
                    advance(len(block))
    return digest.hexdigest()


def _split(planned: Sequence[Planned], max_bytes: int) -> list[list[Planned]]:
    shards: list[list[Planned]] = [[]]
    size = 0
    for tensor in planned:
        if shards[-1] and size + tensor.num_bytes > max_bytes:
            shards.append([])
            size = 0
        shards[-1].append(tensor)
        size += tensor.num_bytes
    return shards


def _header(ordered: Sequence[Planned]) -> bytes:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    position = 0
    for tensor in ordered:
        end = position + tensor.num_bytes
        header[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [position, end],
        }
        position = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # data starts aligned
    return len(text).to_bytes(8, "little") + text


def _blocks(planned: Planned, tensor: torch.Tensor) -> list[memoryview]:
    found = (NAMES[tensor.dtype], tuple(tensor.shape))
    assert found == (planned.dtype, planned.shape), (planned, found)
    flat = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
    data = flat.numpy().data
    return [data[at : at + _BLOCK] for at in range(0, len(data), _BLOCK)]
