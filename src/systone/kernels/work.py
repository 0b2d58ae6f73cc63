"""The pass tables a GPU reads, with the counts and work lists its persistent kernels walk.

Counts live in device memory, so that neither grids nor arguments depend on them. Knows the
planner's tables and no operator's maths. T tokens, S segments, C chunks, R read-outs, A tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from systone.nn.device_tables import DeviceTables
from systone.plan.tables import PassTables

ZERO, LEAVES, CHUNKS, TILES, READOUTS, COUNTS = 0, 1, 2, 3, 4, 8  # places in `counts`; leaves follow the zero


@dataclass(frozen=True, slots=True, eq=False)
class WorkTables(DeviceTables):
    """`DeviceTables` plus true sizes and the query tiles of attention.

    `counts` [8]: 0, leaves, chunks, tiles, read-outs. A tile is `tile_tokens` queries of one
    segment from its `tile_first`-th token on; the longest come first, so that they start first."""

    counts: Tensor  # [8]
    tile_seg: Tensor  # [A]
    tile_first: Tensor  # [A] token within the segment
    tile_tokens: int

    @classmethod
    def build(
        cls, tables: PassTables, tile_tokens: int, device: torch.device | str = "cpu"
    ) -> WorkTables:
        """Copy the planner's arrays to `device` with the work lists beside them."""
        base = DeviceTables.of(tables, device)
        seg, first = query_tiles(tables, tile_tokens)
        counts = np.zeros(COUNTS, dtype=np.int32)
        counts[LEAVES] = tables.leaf_seg.shape[0]
        counts[CHUNKS] = tables.chunk_seg.shape[0]
        counts[TILES] = seg.shape[0]
        counts[READOUTS] = tables.readout_token.shape[0]
        made = [torch.tensor(x, dtype=torch.int32, device=device) for x in (counts, seg, first)]
        fields = {name: getattr(base, name) for name in DeviceTables.__dataclass_fields__}
        return cls(**fields, counts=made[0], tile_seg=made[1], tile_first=made[2],
                   tile_tokens=tile_tokens)


def query_tiles(
    tables: PassTables, tile_tokens: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(segment, first token within it) of every query tile, most keys first."""
    length = tables.seg_len.astype(np.int64)
    per_segment = -(-length // tile_tokens)
    seg = np.repeat(np.arange(length.shape[0]), per_segment)
    begin = np.cumsum(per_segment) - per_segment
    first = (np.arange(seg.shape[0]) - begin[seg]) * tile_tokens
    keys = tables.positions[tables.seg_start[seg]] + first
    order = np.argsort(-keys, kind="stable")
    return seg[order].astype(np.int32), first[order].astype(np.int32)
