"""Copies of chosen rows on a GPU; signature of `reference`. R rows of W elements."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 2048


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, width, stride_x, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    source = tl.load(index_ptr + row).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(x_ptr + source * stride_x + column, mask=inside & (source >= 0), other=0.0)
    tl.store(out_ptr + row * width + column, value, mask=inside)


def gather_rows(x: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """See `reference.gather_rows`. A row itself must be contiguous."""
    rows = x.flatten(1)
    assert rows.data_ptr() == x.data_ptr(), "a row must be contiguous"
    assert rows.stride(1) == 1, "a row must be contiguous"
    if out is None:
        out = torch.empty(index.shape[0], *x.shape[1:], dtype=x.dtype, device=x.device)
    assert out.is_contiguous()
    assert out.shape == (index.shape[0], *x.shape[1:])
    if index.shape[0] == 0:
        return out
    grid = (index.shape[0], triton.cdiv(rows.shape[1], _BLOCK))
    gather_kernel[grid](rows, index, out, rows.shape[1], rows.stride(0), BLOCK=_BLOCK, num_warps=4)
    return out
