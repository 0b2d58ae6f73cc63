"""Tile choices per GPU generation: one fixed table, never tuned while serving.

A tile that decides bits (key block of attention, the GEMM's K order) is the same for every shape of
a device. The others follow M and are bit-neutral. KiB: shared memory one program may use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache

import torch

from systone.errors import ConfigError


@dataclass(frozen=True, slots=True)
class GemmTile:
    """Tile of a matrix product for M up to `max_rows` (None: any M): rows x (columns + rest).

    With tensor-memory copies only: `rest` widens a tile to no power of two, `persistent` lets one
    program a multiprocessor walk all tiles (no `rest` then), `halves` stores in two steps. `group`:
    row tiles that share a weight tile while they run."""

    max_rows: int | None
    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    rest: int = 0
    persistent: bool = True
    halves: bool = False
    group: int = 8


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """One generation's table. `attention_rows` counts (token, query head) pairs."""

    name: str
    shared_kib: int
    gemm: tuple[GemmTile, ...]
    descriptors: bool  # tensor-memory copies (SM 9.0 and up)
    gdn_value_block: int
    gdn_stages: int
    gdn_programs_per_sm: int
    gdn_short_programs_per_sm: int  # leaves of one chunk
    hopper_scan: bool  # `gdn/hopper_scan.py` in place of the portable scan
    attention_rows: int
    attention_keys: int
    attention_warps: int
    attention_stages: int

    def gemm_tile(self, rows: int) -> GemmTile:
        for tile in self.gemm:
            if tile.max_rows is None or rows <= tile.max_rows:
                return tile
        raise AssertionError("the last GEMM tile has no bound")


_HOPPER_GEMM = (
    GemmTile(64, 64, 64, 128, 4, 5),
    GemmTile(256, 64, 128, 128, 4, 4),
    GemmTile(512, 128, 128, 64, 8, 4),
    GemmTile(None, 128, 256, 64, 8, 3),
)
_AMPERE_GEMM = (
    GemmTile(64, 64, 64, 64, 4, 4),
    GemmTile(256, 64, 128, 64, 4, 4),
    GemmTile(None, 128, 128, 64, 8, 3),
)
_SMALL_SHARED_GEMM = (
    GemmTile(64, 64, 64, 64, 4, 3),
    GemmTile(256, 64, 128, 64, 4, 3),
    GemmTile(None, 128, 128, 64, 8, 2),
)

SM80 = KernelConfig("sm80", 163, _AMPERE_GEMM, False, 64, 2, 1, 2, False, 128, 32, 8, 2)
SM89 = KernelConfig("sm89", 99, _SMALL_SHARED_GEMM, False, 64, 1, 1, 1, False, 64, 32, 4, 1)
SM90 = KernelConfig("sm90", 227, _HOPPER_GEMM, True, 64, 3, 1, 2, True, 128, 64, 8, 2)
SM100 = KernelConfig("sm100", 227, _HOPPER_GEMM, False, 64, 3, 1, 2, False, 128, 64, 8, 2)
SM120 = KernelConfig("sm120", 99, _SMALL_SHARED_GEMM, False, 64, 1, 1, 1, False, 64, 32, 4, 1)


def select(capability: tuple[int, int]) -> KernelConfig:
    """The table of a CUDA compute capability. Raises ConfigError for one we have none for."""
    major, minor = capability
    if major == 8:
        return SM80 if minor == 0 else SM89
    table = {9: SM90, 10: SM100, 12: SM120}.get(major)
    if table is None:
        raise ConfigError(
            f"no kernels for compute capability {major}.{minor}: 8.x, 9.0, 10.x, 12.x"
        )
    return table


@lru_cache(maxsize=16)
def _of_cuda(index: int) -> tuple[KernelConfig, int]:
    properties = torch.cuda.get_device_properties(index)
    return select((properties.major, properties.minor)), properties.multi_processor_count


_pretended: ContextVar[tuple[KernelConfig, int] | None] = ContextVar("pretended", default=None)


@contextmanager
def pretend(capability: tuple[int, int], processors: int = 132) -> Iterator[KernelConfig]:
    """Inside the block every device counts as one of this capability: for compiling ahead of time
    and for tests."""
    table = select(capability)
    token = _pretended.set((table, processors))
    try:
        yield table
    finally:
        _pretended.reset(token)


def table_of(device: torch.device) -> tuple[KernelConfig, int]:
    """(table, number of multiprocessors) of a device. A CPU tensor means Triton's interpreter: the
    Hopper table on four pretended multiprocessors, so that work lists are walked in parts."""
    pretended = _pretended.get()
    if pretended is not None:
        return pretended
    if device.type == "cpu":
        return replace(SM90, hopper_scan=False), 4
    return _of_cuda(torch.cuda.current_device() if device.index is None else device.index)
