"""Tile choices per GPU generation: one fixed table, never tuned while serving.

A tile that decides bits (key block of attention, the GEMM's K order) is the same for every shape of
a device. The others follow M and are bit-neutral. KiB: shared memory one program may use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache

import torch

from systone.errors import ConfigError
from systone.kernels.gemm import measured, tiles
from systone.kernels.gemm.measured import Rows
from systone.kernels.gemm.tiles import GemmTile


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
    hopper_gdn: bool  # `gdn/hopper.py` in place of the portable kernels
    attention_rows: int
    attention_keys: int
    attention_warps: int
    attention_stages: int
    gated: tuple[GemmTile, ...] = ()  # the MLP's product with its activation; none: two launches
    quicker: Rows = field(default_factory=dict)
    gated_quicker: Rows = field(default_factory=dict)

    def gemm_tile(self, rows: int, outputs: int, processors: int) -> GemmTile:
        return tiles.quickest(self.gemm, rows, outputs, processors)

    def beats_library(self, rows: int, outputs: int, inputs: int) -> bool:
        """Whether our product was measured to take less than cuBLASLt's."""
        return rows in self.quicker.get((outputs, inputs), ())

    def gated_tile(self, rows: int, outputs: int, inputs: int, processors: int) -> GemmTile | None:
        """None where product and activation are quicker apart. `outputs`: of a half."""
        if rows in self.gated_quicker.get((outputs, inputs), ()):
            return tiles.quickest(self.gated, rows, outputs, processors)
        return tiles.quickest_gated(self.gated, tiles.HOPPER_RATES, rows, outputs, processors)


SM80 = KernelConfig("sm80", 163, tiles.AMPERE, False, 64, 2, 1, 2, False, 128, 32, 8, 2)
SM89 = KernelConfig("sm89", 99, tiles.SMALL_SHARED, False, 64, 1, 1, 1, False, 64, 32, 4, 1)
SM90 = KernelConfig(
    "sm90",
    227,
    tiles.HOPPER,
    True,
    64,
    3,
    1,
    2,
    True,
    128,
    64,
    8,
    2,
    tiles.HOPPER_GATED,
    measured.HOPPER_QUICKER,
    measured.HOPPER_GATED_QUICKER,
)
SM100 = KernelConfig("sm100", 227, tiles.BLACKWELL, False, 64, 3, 1, 2, False, 128, 64, 8, 2)
SM120 = KernelConfig("sm120", 99, tiles.SMALL_SHARED, False, 64, 1, 1, 1, False, 64, 32, 4, 1)


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
        return replace(SM90, hopper_gdn=False), 4
    return _of_cuda(torch.cuda.current_device() if device.index is None else device.index)
