"""Causal convolution and SiLU on a GPU; signature of `reference`. T tokens, N channels (q|k|v)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from systone.kernels.device import round_to, silu
from systone.nn.device_tables import DeviceTables

_TOKENS, _CHANNELS = 8, 256  # of one program


@triton.jit(do_not_specialize=["tokens"])
def conv_kernel(
    x_ptr, weight_ptr, previous_ptr, out_ptr, tokens, channels, stride_x, stride_c, stride_tap,
    TOKENS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    t = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    live = t < tokens
    columns = (c < channels)[None, :]
    p1 = tl.load(previous_ptr + t * 3, mask=live, other=-1).to(tl.int64)
    p2 = tl.load(previous_ptr + t * 3 + 1, mask=live, other=-1).to(tl.int64)
    p3 = tl.load(previous_ptr + t * 3 + 2, mask=live, other=-1).to(tl.int64)
    x3 = tl.load(x_ptr + p3[:, None] * stride_x + c[None, :], (p3 >= 0)[:, None] & columns, 0.0)
    x2 = tl.load(x_ptr + p2[:, None] * stride_x + c[None, :], (p2 >= 0)[:, None] & columns, 0.0)
    x1 = tl.load(x_ptr + p1[:, None] * stride_x + c[None, :], (p1 >= 0)[:, None] & columns, 0.0)
    here = live[:, None] & columns
    t = t.to(tl.int64)[:, None]
    x0 = tl.load(x_ptr + t * stride_x + c[None, :], here, 0.0)
    total = x3.to(tl.float32) * _tap(weight_ptr, 0, c, channels, stride_c, stride_tap)
    total += x2.to(tl.float32) * _tap(weight_ptr, 1, c, channels, stride_c, stride_tap)
    total += x1.to(tl.float32) * _tap(weight_ptr, 2, c, channels, stride_c, stride_tap)
    total += x0.to(tl.float32) * _tap(weight_ptr, 3, c, channels, stride_c, stride_tap)
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    out = silu(round_to(total, dtype)).to(dtype)
    tl.store(out_ptr + t * channels + c[None, :], out, here)


@triton.jit
def _tap(weight_ptr, tap: tl.constexpr, c, channels, stride_c, stride_tap):
    at = weight_ptr + tap * stride_tap + c * stride_c
    return tl.load(at, mask=c < channels, other=0.0).to(tl.float32)[None, :]


def causal_conv_silu(
    x: Tensor, weight: Tensor, tables: DeviceTables, *, out: Tensor | None = None
) -> Tensor:
    """See `reference.causal_conv_silu`. Fastest with the weight stored tap by tap (strides 1, N).
    The sum may be fused multiply-adds, oldest token first."""
    assert x.stride(1) == 1
    tokens, channels = x.shape
    if out is None:
        out = torch.empty(tokens, channels, dtype=x.dtype, device=x.device)
    assert out.is_contiguous()
    grid = (triton.cdiv(channels, _CHANNELS), triton.cdiv(tokens, _TOKENS))
    conv_kernel[grid](
        x, weight, tables.conv_prev, out, tokens, channels, x.stride(0), *weight.stride(),
        TOKENS=_TOKENS, CHANNELS=_CHANNELS, num_warps=4,
    )  # fmt: skip
    return out
