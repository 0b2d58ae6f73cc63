"""The tables of one pass as int32 tensors on a device, the argument every trie operator shares.

Field for field the planner's `PassTables`; knows no model and no kernel. Axes as in plan/tables.py:
T tokens, S segments, C chunks, R read-outs, G inner depths, X ancestor entries.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from systone.plan.tables import PassTables


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTables:
    """Contiguous int32 tensors; see `PassTables` for what each holds. The reference operators read
    sizes from the shapes; tables padded to a bucket carry their true sizes elsewhere."""

    token_ids: Tensor  # [T]
    positions: Tensor  # [T]
    conv_prev: Tensor  # [T, 3]

    seg_start: Tensor  # [S]
    seg_len: Tensor  # [S]
    seg_parent: Tensor  # [S]
    seg_depth: Tensor  # [S]
    start_position: Tensor  # [S, 3]
    next_position: Tensor  # [S]

    anc_ptr: Tensor  # [S + 1]
    anc_seg: Tensor  # [X]

    seg_chunk_ptr: Tensor  # [S + 1]
    chunk_seg: Tensor  # [C]
    chunk_start: Tensor  # [C]
    chunk_len: Tensor  # [C]
    chunk_tile: Tensor  # [C]

    inner_ptr: Tensor  # [G + 1]
    inner_seg: Tensor  # [inner segments]
    leaf_seg: Tensor  # [leaves]
    state_slot: Tensor  # [S]
    parent_slot: Tensor  # [S]

    readout_token: Tensor  # [R]
    readout_seg: Tensor  # [R]
    readout_request: Tensor  # [R]
    readout_row: Tensor  # [R]
    readout_query: Tensor  # [R]

    @classmethod
    def of(cls, tables: PassTables, device: torch.device | str = "cpu") -> DeviceTables:
        """Copy the planner's arrays to `device` (always a copy: staging arrays may be reused)."""
        names = [field.name for field in fields(cls)]
        return cls(
            **{
                name: torch.tensor(getattr(tables, name), dtype=torch.int32, device=device)
                for name in names
            }
        )

    @property
    def num_tokens(self) -> int:
        return self.token_ids.shape[0]

    @property
    def num_segments(self) -> int:
        return self.seg_start.shape[0]

    @property
    def num_states(self) -> int:
        return self.inner_seg.shape[0]

    @property
    def num_readouts(self) -> int:
        return self.readout_token.shape[0]
