"""RMS norms on a GPU; signatures of `reference`. T rows, h hidden width, Hv heads of Dv values.

One program per row (or block of heads): a row's sum has one order, whatever lies beside it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from systone.kernels.device import round_to, silu

_HEADS, _WARPS = 8, 4  # of one program of the gated norm


@triton.jit
def norm_kernel(
    x_ptr, residual_ptr, weight_ptr, out_ptr, total_ptr, width, stride_x, eps,
    ADD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    x = tl.load(x_ptr + row * stride_x + column, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        at = row * width + column
        residual = tl.load(residual_ptr + at, mask=inside, other=0.0)
        x = round_to(residual.to(tl.float32) + x, dtype)
        tl.store(total_ptr + at, x.to(dtype), mask=inside)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / width + eps)
    out = x * scale * (1.0 + weight)
    tl.store(out_ptr + row * width + column, out.to(dtype), mask=inside)


def rms_norm(x: Tensor, weight: Tensor, eps: float, *, out: Tensor | None = None) -> Tensor:
    """See `reference.rms_norm`; x [T, h], rows may be views with a stride."""
    assert x.dim() == 2
    assert x.stride(1) == 1
    if out is None:
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    assert out.is_contiguous()
    _launch(x, x, weight, eps, out, out, add=False)
    return out


def add_rms_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    eps: float,
    *,
    out: Tensor | None = None,
    residual_out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See `reference.add_rms_norm`."""
    assert x.shape == residual.shape
    assert x.is_contiguous()
    assert residual.is_contiguous()
    if out is None:
        out = torch.empty_like(x)
    if residual_out is None:
        residual_out = torch.empty_like(x)
    assert out.is_contiguous()
    assert residual_out.is_contiguous()
    _launch(x, residual, weight, eps, out, residual_out, add=True)
    return out, residual_out


def _launch(
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    eps: float,
    out: Tensor,
    total: Tensor,
    *,
    add: bool,
) -> None:
    rows, width = x.shape
    if rows == 0:
        return
    block = triton.next_power_of_2(width)
    norm_kernel[(rows,)](
        x, residual, weight, out, total, width, x.stride(0), eps,
        ADD=add, BLOCK=block, num_warps=max(1, min(8, block // 512)),
    )  # fmt: skip


@triton.jit
def gated_norm_kernel(
    x_ptr, gate_ptr, weight_ptr, out_ptr, stride_gate, eps,
    HEADS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    inside = (head < HEADS)[:, None]
    at = head[:, None] * D + d[None, :]
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    x = tl.load(x_ptr + token * (HEADS * D) + at, mask=inside, other=0.0).to(tl.float32)
    gate = tl.load(gate_ptr + token * stride_gate + at, mask=inside, other=0.0).to(tl.float32)
    # as a tile: each thread loads what it needs and no exchange holds the block up
    weight = tl.load(weight_ptr + d[None, :] + 0 * head[:, None]).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=1) / D + eps)
    normed = round_to(round_to(x * scale[:, None], dtype) * weight, dtype)
    out = normed * silu(gate)
    tl.store(out_ptr + token * (HEADS * D) + at, out.to(dtype), mask=inside)


def gated_rms_norm(
    x: Tensor, gate: Tensor, weight: Tensor, eps: float, *, out: Tensor | None = None
) -> Tensor:
    """See `reference.gated_rms_norm`."""
    tokens, heads, width = x.shape
    assert x.is_contiguous()
    assert gate.stride(1) == 1
    assert width & (width - 1) == 0
    if out is None:
        out = torch.empty(tokens, heads * width, dtype=x.dtype, device=x.device)
    assert out.is_contiguous()
    if tokens == 0:
        return out
    gated_norm_kernel[(tokens, triton.cdiv(heads, _HEADS))](
        x, gate, weight, out, gate.stride(0), eps,
        HEADS=heads, D=width, BLOCK=_HEADS, num_warps=_WARPS,
    )  # fmt: skip
    return out
