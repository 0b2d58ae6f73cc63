"""Launches of the SM 9.0 kernels of the gated delta rule; the portable ones are in `triton`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from systone.kernels.config import table_of
from systone.kernels.gdn.hopper_chunk import gdn_hopper_chunk_kernel, hopper_chunk_tiles
from systone.kernels.gdn.hopper_run import PLACES
from systone.kernels.gdn.hopper_scan import gdn_hopper_scan_kernel, hopper_scan_tiles
from systone.kernels.gdn.scratch import GdnScratch
from systone.kernels.work import CHUNKS, Scan, WorkTables

CHUNK_PROGRAMS_PER_SM = 3
CHUNK_OPTIONS = {"num_warps": 4, "maxnreg": 168}
APART_TOKENS = 512  # so short a pass leaves multiprocessors idle: a program for every value head
SCAN_STAGES = 3  # chunks on their way or at work: two thirds of a multiprocessor's memory
_MOST_PLACES = PLACES.value  # inner segments at two depths, short and long leaves


def chunks(
    b: Tensor, a: Tensor, A_log: Tensor, dt_bias: Tensor, scratch: GdnScratch,
    out: Tensor, tables: WorkTables, key_heads: int, scale: float,
) -> None:  # fmt: skip
    """Fills `scratch` for every chunk of the pass from the unit rows in it."""
    heads, growth, flags = out.shape[1], scratch.growth, scratch.flags
    group = 1 if out.shape[0] <= APART_TOKENS else heads // key_heads
    gdn_hopper_chunk_kernel[(CHUNK_PROGRAMS_PER_SM * _processors(out.device),)](
        hopper_chunk_tiles(scratch.units), a, b, A_log, dt_bias, scratch.matrices, growth,
        tables.counts, tables.chunk_start, tables.chunk_len, flags, flags.numel(),
        a.stride(0), b.stride(0), growth.stride(0), scale,
        COUNT=CHUNKS, HK=key_heads, HV=heads, GROUP=group, ROOM=triton.next_power_of_2(group),
        **CHUNK_OPTIONS,
    )  # fmt: skip


def scan(
    qkv: Tensor, states: Tensor, scratch: GdnScratch, out: Tensor, tables: WorkTables,
    key_heads: int, scale: float,
) -> None:  # fmt: skip
    """Every entry the tables ask for. A multiprocessor has room for one program."""
    heads, growth = out.shape[1], scratch.growth
    parts = max(1, _processors(qkv.device) // (2 * heads))
    tiles = hopper_scan_tiles(scratch.units, qkv, scratch.matrices, out)
    for launch in joined(tables.scans):
        gdn_hopper_scan_kernel[(2 * heads * parts,)](
            *tiles, growth, states, scratch.flags, out,
            tables.scan_ptr, launch.place, launch.split, launch.stop, int(launch.flags),
            tables.scan_entries, growth.stride(0), scale,
            HK=key_heads, HV=heads, LEAVES=launch.leaves, STAGES=SCAN_STAGES, num_warps=4,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class JoinedScan:
    """One launch of the SM 9.0 scan: every program walks the entries of `walk` places from `place`
    on, then programs divide those of each of the next `places`."""

    place: int
    walk: int
    places: int
    leaves: bool  # no entry leaves a state

    @property
    def split(self) -> int:
        return self.place + self.walk

    @property
    def stop(self) -> int:
        return self.split + self.places

    @property
    def flags(self) -> bool:
        """A program may need a state that another one of the launch makes."""
        return not self.leaves and self.walk == 0

    def with_next(self, other: JoinedScan) -> JoinedScan | None:
        """One launch for both; None where they don't follow each other, or are too much for one."""
        places = self.places + other.places
        follows = other.place == self.place + self.places
        if self.walk or other.walk or not follows or places > _MOST_PLACES:
            return None
        return JoinedScan(self.place, 0, places, self.leaves and other.leaves)


def joined(scans: Sequence[Scan]) -> tuple[JoinedScan, ...]:
    """The launches that do what `scans` do: places that follow each other become one launch,
    in which programs wait for each other's states by flags."""
    made: list[JoinedScan] = []
    for scan in scans:
        new = JoinedScan(scan.begin, scan.split - scan.begin, scan.stop - scan.split, scan.leaf)
        both = made[-1].with_next(new) if made else None
        if both is None:
            made.append(new)
        else:
            made[-1] = both
    return tuple(made)


def _processors(device: torch.device) -> int:
    return table_of(device)[1]
