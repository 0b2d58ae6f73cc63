"""What a GPU runner needs of its device's memory, before it takes it, and what it took. Bytes.

Weights lie there already when the plan is made. Everything a pass writes is allocated once, so the
plan is exact but for what libraries and graphs take; the warm-up measures that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass

import torch

from systone.errors import ConfigError

__all__ = [
    "LIBRARY_BYTES",
    "MemoryPlan",
    "MemoryWatch",
    "graph_room",
    "weight_bytes",
    "with_torch_peak",
]

LIBRARY_BYTES = 256 * 2**20  # cuBLASLt's workspace and loaded kernels
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """`arena`: what the largest pass writes, forked states apart; `beside`: what passes that run
    between its layers have to themselves; `tables`: staged tables and rotary angles."""

    weights: int
    arena: int
    states: int
    beside: int
    tables: int
    libraries: int = LIBRARY_BYTES

    @property
    def beyond_weights(self) -> int:
        return int(sum(getattr(self, f.name) for f in fields(self))) - self.weights

    def require_fit(self, free: int, total: int, limits: str) -> None:
        """Raises ConfigError with the arithmetic if more is needed beside the weights than is free.

        `limits`: the pass the device is to be set up for, in words."""
        if self.beyond_weights <= free:
            return
        parts = [f"{f.name} {getattr(self, f.name) / _GIB:.2f}" for f in fields(self)]
        raise ConfigError(
            f"passes of {limits} don't fit the device: {' + '.join(parts)} = "
            f"{(self.weights + self.beyond_weights) / _GIB:.2f} GiB; it has {total / _GIB:.2f}, of "
            f"which {free / _GIB:.2f} are free beside the weights and "
            f"{self.beyond_weights / _GIB:.2f} are needed (lower --max-length or the --max-batch "
            "limits)"
        )


class MemoryWatch:
    """Bytes of a device that went since this was made. Reads the driver, allocates nothing."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        torch.cuda.empty_cache()
        self._free_before, self.total = torch.cuda.mem_get_info(device)
        self._most = 0

    def free(self) -> int:
        """What the driver has left now; noted for the peak."""
        free = int(torch.cuda.mem_get_info(self._device)[0])
        self._most = max(self._most, self._free_before - free)
        return free

    def settled(self, plan: MemoryPlan, graphs: int) -> Mapping[str, int]:
        """What is held for good once everything was allocated and the largest pass has run."""
        free = self.free()
        return {
            "peak_bytes": self._most,
            "used_bytes": self._free_before - free,
            **{f"{f.name}_bytes": getattr(plan, f.name) for f in fields(plan)},
            "graphs_bytes": graphs,
            "free_bytes": free,
            "total_bytes": self.total,
        }


def weight_bytes(weights: object) -> int:
    """Bytes of the tensors that a tree of dataclasses, sequences and mappings holds; tensors that
    share their memory count once."""
    held: dict[int, int] = {}

    def visit(part: object) -> None:
        if isinstance(part, torch.Tensor):
            storage = part.untyped_storage()
            held[storage.data_ptr()] = storage.nbytes()
        elif is_dataclass(part):
            for field in fields(part):
                visit(getattr(part, field.name))
        elif isinstance(part, Mapping):
            visit(tuple(part.values()))
        elif isinstance(part, (tuple, list)):
            for each in part:
                visit(each)

    visit(weights)
    return sum(held.values())


def graph_room(most: int, device: torch.device) -> int:
    """Bytes that graphs may take: `most`, or what is left on the device if that is less."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    return max(1, min(most, free - LIBRARY_BYTES))


def with_torch_peak(memory: Mapping[str, int], device: torch.device) -> Mapping[str, int]:
    """`peak_bytes` as of now: the most that was taken at any time, transients of loading included.
    Asks torch's own books, not the device."""
    reserved = torch.cuda.max_memory_reserved(device)
    return {**memory, "peak_bytes": max(memory["peak_bytes"], reserved)}
