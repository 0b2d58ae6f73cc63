"""The tables of a pass in one device buffer: packed on the host, sent with one copy.

Every array starts on a 16-byte border at a place that depends on the capacities only, so that
kernels see the same alignment in every pass and a captured graph could read the same addresses.
Pad tokens read token 0 and have no predecessors; counts in `WorkTables` say what is real.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from systone.errors import EngineFaultError
from systone.kernels.work import WorkTables, scan_launches, work_arrays
from systone.plan.tables import PassTables

_ALIGN = 4  # int32 elements of 16 bytes


@dataclass(frozen=True, slots=True)
class TableShape:
    """What a staged pass may hold. Chunks and query tiles: at most one per segment beyond whole
    ones; ancestors: one per segment and inner depth."""

    tokens: int
    segments: int
    ancestors: int
    readouts: int
    tile_tokens: int

    def lengths(self) -> dict[str, int]:
        """Elements of every array at full capacity."""
        tokens, segments = self.tokens, self.segments
        chunks, tiles = tokens // 64 + segments, tokens // self.tile_tokens + segments
        return {
            "token_ids": tokens, "positions": tokens, "conv_prev": 3 * tokens,
            "seg_start": segments, "seg_len": segments, "seg_parent": segments,
            "seg_depth": segments, "start_position": 3 * segments, "next_position": segments,
            "anc_ptr": segments + 1, "anc_seg": self.ancestors, "seg_chunk_ptr": segments + 1,
            "chunk_seg": chunks, "chunk_start": chunks, "chunk_len": chunks, "chunk_tile": chunks,
            "inner_ptr": segments + 1, "inner_seg": segments, "leaf_seg": segments,
            "state_slot": segments, "parent_slot": segments,
            "readout_token": self.readouts, "readout_seg": self.readouts,
            "readout_request": self.readouts, "readout_row": self.readouts,
            "readout_query": self.readouts,
            "counts": 4, "scan_ptr": segments + 3, "scan_entries": 4 * segments,
            "tile_seg": tiles, "tile_first": tiles,
        }  # fmt: skip


class TableStage:
    """A pinned host buffer and its device twin. One pass at a time."""

    def __init__(self, shape: TableShape, device: torch.device) -> None:
        self.shape = shape
        self._start: dict[str, int] = {}
        self._room = shape.lengths()
        size = 0
        for name, length in self._room.items():
            self._start[name] = size
            size += -(-length // _ALIGN) * _ALIGN
        self._host = torch.empty(size, dtype=torch.int32, pin_memory=device.type == "cuda")
        self._words: NDArray[np.int32] = self._host.numpy()
        self._device = torch.empty(size, dtype=torch.int32, device=device)

    @property
    def num_bytes(self) -> int:
        return self._device.numel() * 4

    def load(self, tables: PassTables, tokens: int, readouts: int) -> WorkTables:
        """Send a pass, padded to `tokens` rows and `readouts` read-outs. The copy is ordered before
        what is launched next on the current stream. Raises EngineFaultError: it doesn't fit."""
        arrays = work_arrays(tables, self.shape.tile_tokens)
        padded = {
            "token_ids": (tokens, 0), "positions": (tokens, 0), "conv_prev": (tokens, -1),
            "readout_token": (readouts, 0), "readout_seg": (readouts, 0),
        }  # fmt: skip
        used = 0
        views = {}
        for name, array in arrays.items():
            rows, fill = padded.get(name, (array.shape[0], 0))
            shape = (rows, *array.shape[1:])
            count = int(np.prod(shape))
            if count > self._room[name] or rows < array.shape[0]:
                raise EngineFaultError(
                    f"a pass has {array.shape[0]} rows of {name}; the device was set up for "
                    f"{self._room[name]} words"
                )
            begin = self._start[name]
            target = self._words[begin : begin + count].reshape(shape)
            target[: array.shape[0]] = array
            target[array.shape[0] :] = fill
            views[name] = self._device[begin : begin + count].view(shape)
            used = max(used, begin + count)
        self._device[:used].copy_(self._host[:used], non_blocking=True)
        return WorkTables(**views, tile_tokens=self.shape.tile_tokens, scans=scan_launches(tables))
