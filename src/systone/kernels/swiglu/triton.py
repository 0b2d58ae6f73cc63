"""The MLP's gated activation on a GPU; signature of `reference`. T rows, I intermediate width."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from systone.kernels.device import round_to, silu

_BLOCK = 2048


@triton.jit
def swiglu_kernel(x_ptr, out_ptr, width, stride_x, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    at = x_ptr + row * stride_x + column
    gate = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(at + width, mask=inside, other=0.0).to(tl.float32)
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    out = round_to(silu(gate), dtype) * up
    tl.store(out_ptr + row * width + column, out.to(dtype), mask=inside)


def swiglu(gate_up: Tensor, *, out: Tensor | None = None) -> Tensor:
    """See `reference.swiglu`."""
    assert gate_up.stride(1) == 1
    rows, width = gate_up.shape[0], gate_up.shape[1] // 2
    if out is None:
        out = torch.empty(rows, width, dtype=gate_up.dtype, device=gate_up.device)
    assert out.is_contiguous()
    # rows beyond the second grid axis (65535) go in slices
    for first in range(0, rows, 65535):
        part = slice(first, min(rows, first + 65535))
        grid = (triton.cdiv(width, _BLOCK), part.stop - part.start)
        swiglu_kernel[grid](
            gate_up[part], out[part], width, gate_up.stride(0), BLOCK=_BLOCK, num_warps=4
        )
    return out
