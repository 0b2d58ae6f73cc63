"""Causal convolution and SiLU on a GPU; signature of `reference`. T tokens, N channels (q|k|v)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from systone.kernels.device import round_to, silu
from systone.nn.device_tables import DeviceTables

_STEP, _CHANNELS = 8, 256  # tokens a program takes at a time, its channels


@triton.jit(do_not_specialize=["tokens"])
def conv_kernel(
    x_ptr, weight_ptr, previous_ptr, out_ptr, tokens, channels, stride_x,
    TOKENS: tl.constexpr, STEP: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    inside = c < channels
    columns = inside[None, :]
    weights = weight_ptr + c * 4
    w0 = tl.load(weights, mask=inside, other=0.0).to(tl.float32)[None, :]
    w1 = tl.load(weights + 1, mask=inside, other=0.0).to(tl.float32)[None, :]
    w2 = tl.load(weights + 2, mask=inside, other=0.0).to(tl.float32)[None, :]
    w3 = tl.load(weights + 3, mask=inside, other=0.0).to(tl.float32)[None, :]
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    begin = tl.program_id(1) * TOKENS
    for first in range(begin, tl.minimum(begin + TOKENS, tokens), STEP):
        t = first + tl.arange(0, STEP)
        live = t < tokens
        p1 = tl.load(previous_ptr + t * 3, mask=live, other=-1).to(tl.int64)
        p2 = tl.load(previous_ptr + t * 3 + 1, mask=live, other=-1).to(tl.int64)
        p3 = tl.load(previous_ptr + t * 3 + 2, mask=live, other=-1).to(tl.int64)
        x3 = tl.load(x_ptr + p3[:, None] * stride_x + c[None, :], (p3 >= 0)[:, None] & columns, 0.0)
        x2 = tl.load(x_ptr + p2[:, None] * stride_x + c[None, :], (p2 >= 0)[:, None] & columns, 0.0)
        x1 = tl.load(x_ptr + p1[:, None] * stride_x + c[None, :], (p1 >= 0)[:, None] & columns, 0.0)
        here = live[:, None] & columns
        t = t.to(tl.int64)[:, None]
        x0 = tl.load(x_ptr + t * stride_x + c[None, :], here, 0.0)
        total = x3.to(tl.float32) * w0
        total += x2.to(tl.float32) * w1
        total += x1.to(tl.float32) * w2
        total += x0.to(tl.float32) * w3
        out = silu(round_to(total, dtype)).to(dtype)
        tl.store(out_ptr + t * channels + c[None, :], out, here)


def causal_conv_silu(
    x: Tensor, weight: Tensor, tables: DeviceTables, *, out: Tensor | None = None
) -> Tensor:
    """See `reference.causal_conv_silu`. The sum may be fused multiply-adds, oldest token first."""
    assert x.stride(1) == 1 and weight.is_contiguous()
    tokens, channels = x.shape
    if out is None:
        out = torch.empty(tokens, channels, dtype=x.dtype, device=x.device)
    assert out.is_contiguous()
    steps = (
        1 if tokens <= 1024 else 8
    )  # more programs for few tokens, fewer loads of weights for many
    grid = (triton.cdiv(channels, _CHANNELS), triton.cdiv(tokens, steps * _STEP))
    conv_kernel[grid](
        x, weight, tables.conv_prev, out, tokens, channels, x.stride(0),
        TOKENS=steps * _STEP, STEP=_STEP, CHANNELS=_CHANNELS, num_warps=4,
    )  # fmt: skip
    return out
