"""Copies of chosen rows as plain torch: token embeddings and read-out rows."""

from __future__ import annotations

from torch import Tensor

from systone.kernels.outputs import place


def gather_rows(x: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """x[index]: x [N, ...] (rows may be views with a stride), index int32 [R] in 0..N-1, or -1 for
    a row of zeros -> [R, ...] contiguous, same dtype."""
    rows = x[index.long().clamp(min=0)]
    return place(rows.masked_fill_((index < 0).view(-1, *[1] * (x.dim() - 1)), 0), out)
