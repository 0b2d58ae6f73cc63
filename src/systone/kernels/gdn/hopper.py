"""Launches of the SM 9.0 kernels of the gated delta rule; the portable ones are in `triton`."""

from __future__ import annotations

import torch
from torch import Tensor

from systone.kernels.config import table_of
from systone.kernels.gdn.hopper_chunk import gdn_hopper_chunk_kernel, hopper_chunk_tiles
from systone.kernels.gdn.hopper_scan import gdn_hopper_scan_kernel, hopper_scan_tiles
from systone.kernels.gdn.scratch import GdnScratch, head_room
from systone.kernels.work import CHUNKS, WorkTables

CHUNK_PROGRAMS_PER_SM = 3
CHUNK_OPTIONS = {"num_warps": 4, "maxnreg": 168}
SCAN_STAGES = 3  # chunks on their way or at work: two thirds of a multiprocessor's memory


def chunks(
    b: Tensor, a: Tensor, A_log: Tensor, dt_bias: Tensor, scratch: GdnScratch,
    out: Tensor, tables: WorkTables, key_heads: int, scale: float,
) -> None:  # fmt: skip
    """Fills `scratch` for every chunk of the pass from the unit rows in it."""
    heads, growth = out.shape[1], scratch.growth
    gdn_hopper_chunk_kernel[(CHUNK_PROGRAMS_PER_SM * _processors(out.device),)](
        hopper_chunk_tiles(scratch.units), a, b, A_log, dt_bias, scratch.matrices, growth,
        tables.counts, tables.chunk_start, tables.chunk_len,
        a.stride(0), b.stride(0), growth.stride(0), scale,
        COUNT=CHUNKS, HK=key_heads, HV=heads, ROOM=head_room(key_heads, heads),
        **CHUNK_OPTIONS,
    )  # fmt: skip


def scan(
    qkv: Tensor, states: Tensor, scratch: GdnScratch, out: Tensor, tables: WorkTables,
    key_heads: int, scale: float,
) -> None:  # fmt: skip
    """Every launch the tables ask for. A multiprocessor has room for one program."""
    heads, growth = out.shape[1], scratch.growth
    parts = max(1, _processors(qkv.device) // (2 * heads))
    tiles = hopper_scan_tiles(scratch.units, qkv, scratch.matrices, out)
    for launch in tables.scans:
        gdn_hopper_scan_kernel[(2 * heads * parts,)](
            *tiles, growth, states, out, tables.scan_ptr, launch.begin, launch.split, launch.stop,
            tables.scan_entries, growth.stride(0), scale,
            HK=key_heads, HV=heads, LEAF=launch.leaf, STAGES=SCAN_STAGES, num_warps=4,
        )  # fmt: skip


def _processors(device: torch.device) -> int:
    return table_of(device)[1]
