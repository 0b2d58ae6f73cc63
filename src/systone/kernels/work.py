"""The pass tables a GPU reads, with the counts and work lists its persistent kernels walk.

Counts live in device memory, so that neither grids nor arguments depend on them. Knows the
planner's tables and no operator's maths. T tokens, S segments, C chunks, R read-outs, A tiles.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from systone.nn.device_tables import DeviceTables
from systone.plan.tables import CHUNK, PassTables

CHUNKS, TILES, READOUTS, COUNTS = 0, 1, 2, 4  # places in `counts`, and its length
_FEW_SEGMENTS = 24
_PASS_ARRAYS = tuple(field.name for field in fields(PassTables))


@dataclass(frozen=True, slots=True)
class Scan:
    """One launch. Its programs divide the scan entries between places `split` and `stop` of
    `scan_ptr`; those from place `begin` on are ancestors that each program walks itself."""

    begin: int
    split: int
    stop: int
    leaf: bool  # no entry leaves a state
    long: bool  # entries may have more than 64 tokens

    @classmethod
    def at(cls, place: int, *, leaf: bool, long: bool) -> Scan:
        """The entries of one place."""
        return cls(place, place, place + 1, leaf, long)

    @classmethod
    def of_all(cls, depth: int) -> Scan:
        """Every entry of a pass with inner segments at `depth` depths."""
        return cls(0, depth, depth + 2, leaf=depth == 0, long=True)

    @property
    def whole(self) -> bool:
        """Entries of several places."""
        return self.stop - self.begin > 1


@dataclass(frozen=True, slots=True, eq=False)
class WorkTables(DeviceTables):
    """`DeviceTables` plus true sizes, the segments in scan order and the query tiles of attention.

    `counts`: chunks, tiles, read-outs. Scan entries are (flat start, length, parent's slot, own
    slot): inner segments by depth, then leaves of up to 64 tokens, then longer ones. A tile is
    `tile_tokens` queries of one segment from its `tile_first`-th token on, most keys first."""

    counts: Tensor  # [4]
    scan_ptr: Tensor  # [G + 3] into scan_entries
    scan_entries: Tensor  # [S, 4]
    tile_seg: Tensor  # [A]
    tile_first: Tensor  # [A] token within the segment
    tile_tokens: int
    scans: tuple[Scan, ...]  # in launch order

    @classmethod
    def build(
        cls, tables: PassTables, tile_tokens: int, device: torch.device | str = "cpu"
    ) -> WorkTables:
        """Copy the planner's arrays and the work lists to `device`, each a tensor of its own."""
        made = {
            name: torch.tensor(array, dtype=torch.int32, device=device)
            for name, array in work_arrays(tables, tile_tokens).items()
        }
        return cls(**made, tile_tokens=tile_tokens, scans=scan_launches(tables))


def work_arrays(tables: PassTables, tile_tokens: int) -> dict[str, NDArray[np.int32]]:
    """Every array field of `WorkTables`, by name."""
    lists = _few_lists if tables.num_segments <= _FEW_SEGMENTS else _lists
    return {**{name: getattr(tables, name) for name in _PASS_ARRAYS}, **lists(tables, tile_tokens)}


def _few_lists(tables: PassTables, tile_tokens: int) -> dict[str, NDArray[np.int32]]:
    """The same as `_lists`, entry by entry: of a few segments half the time."""
    length, begin = tables.seg_len.tolist(), tables.start_position[:, 0].tolist()
    tiles = sorted(
        (-at - first, segment, first)
        for segment, (at, count) in enumerate(zip(begin, length, strict=True))
        for first in range(0, count, tile_tokens)
    )
    leaves, inner = tables.leaf_seg.tolist(), tables.inner_ptr.tolist()
    short = [segment for segment in leaves if length[segment] <= CHUNK]
    long = [segment for segment in leaves if length[segment] > CHUNK]
    order = [*tables.inner_seg.tolist(), *short, *long]
    columns = (tables.seg_start, tables.seg_len, tables.parent_slot, tables.state_slot)
    start, _, above, own = (column.tolist() for column in columns)
    entries = [(start[s], length[s], above[s], own[s]) for s in order]
    split = inner[-1] + len(short)
    return {
        "counts": np.array(
            [tables.chunk_seg.shape[0], len(tiles), tables.readout_token.shape[0], 0], np.int32
        ),
        "scan_ptr": np.array([*inner, split, split + len(long)], np.int32),
        "scan_entries": np.array(entries, np.int32),
        "tile_seg": np.array([segment for _, segment, _ in tiles], np.int32),
        "tile_first": np.array([first for *_, first in tiles], np.int32),
    }


def _lists(tables: PassTables, tile_tokens: int) -> dict[str, NDArray[np.int32]]:
    """What `WorkTables` has beside the pass's own arrays."""
    seg, first = query_tiles(tables, tile_tokens)
    counts = np.zeros(COUNTS, dtype=np.int32)
    counts[CHUNKS] = tables.chunk_seg.shape[0]
    counts[TILES] = seg.shape[0]
    counts[READOUTS] = tables.readout_token.shape[0]
    short, long = _leaves(tables)
    order = np.concatenate([tables.inner_seg, short, long])
    ends = tables.inner_seg.shape[0] + np.cumsum([short.shape[0], long.shape[0]])
    columns = (tables.seg_start, tables.seg_len, tables.parent_slot, tables.state_slot)
    return {
        "counts": counts,
        "scan_ptr": np.append(tables.inner_ptr, ends.astype(np.int32)),
        "scan_entries": np.stack(columns, axis=1)[order],
        "tile_seg": seg,
        "tile_first": first,
    }


def scan_launches(tables: PassTables) -> tuple[Scan, ...]:
    """A launch per inner depth, then one for short leaves and one for long ones where there are."""
    depths = tables.inner_ptr.shape[0] - 1
    inner = [Scan.at(depth, leaf=False, long=True) for depth in range(depths)]
    short, long = _leaves(tables)
    kinds = ((depths, False, short.shape[0]), (depths + 1, True, long.shape[0]))
    return (*inner, *(Scan.at(at, leaf=True, long=is_long) for at, is_long, n in kinds if n))


def _leaves(tables: PassTables) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Leaves of up to one chunk, and longer ones."""
    is_long = tables.seg_len[tables.leaf_seg] > CHUNK
    return tables.leaf_seg[~is_long], tables.leaf_seg[is_long]


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
