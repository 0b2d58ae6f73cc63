"""Causal convolution and SiLU on a GPU; signature of `reference`. T tokens, N channels (q|k|v)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from systone.kernels.device import quick_silu, round_bf16
from systone.nn.device_tables import DeviceTables

HEAD = tl.constexpr(128)
_TOKENS, _CHANNELS, _WARPS = 8, 512, 4  # of one program
# Where a run of tokens crosses a border it goes token by token: in short passes no other program
# hides that, and there are few of them.
_SHORT_ROWS, _SHORT_TOKENS = 512, 2


@triton.jit
def _store(x3, x2, x1, x0, taps, out_ptr, inside, eps, UNIT: tl.constexpr):
    """One token: explicit fused sums, so that both ways of loading its rows give the same bits."""
    total = x3.to(tl.float32) * taps[0]
    total = tl.fma(x2.to(tl.float32), taps[1], total)
    total = tl.fma(x1.to(tl.float32), taps[2], total)
    total = tl.fma(x0.to(tl.float32), taps[3], total)
    out = quick_silu(round_bf16(total))
    if UNIT:
        out = round_bf16(out)
        heads = tl.reshape(out, (out.shape[0] // HEAD, HEAD))
        norm = tl.rsqrt(tl.sum(heads * heads, axis=1) + eps)
        out = tl.reshape(heads * norm[:, None], out.shape)
    tl.store(out_ptr, out.to(out_ptr.dtype.element_ty), inside)


@triton.jit
def _older(x_ptr, previous_ptr, stride_x, inside):
    token = tl.load(previous_ptr).to(tl.int64)
    return tl.load(x_ptr + token * stride_x, inside & (token >= 0), 0.0)


@triton.jit
def _run(
    x_ptr, previous_ptr, out_ptr, taps, first, tokens, stride_x, stride_out, inside, eps,
    TOKENS: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """TOKENS tokens from `first` on. When the predecessors of all of them lie right before them,
    every row is read once; else each token's predecessors are read by the table."""
    t = first + tl.arange(0, TOKENS)
    live = t < tokens
    off = tl.load(previous_ptr + t * 3, mask=live, other=-1) - (t - 1)
    off |= tl.load(previous_ptr + t * 3 + 1, mask=live, other=-1) - (t - 2)
    off |= tl.load(previous_ptr + t * 3 + 2, mask=live, other=-1) - (t - 3)
    row = first.to(tl.int64)
    out_ptr += row * stride_out
    # -1 says that there is no token: it is no place before token 2
    if (first > 2) & (tl.max(tl.where(off == 0, 0, 1), axis=0) == 0):
        x_ptr += row * stride_x
        rows = ()
        for i in tl.static_range(-3, TOKENS):
            rows = rows + (tl.load(x_ptr + i * stride_x, inside, 0.0),)  # noqa: RUF005
        for i in tl.static_range(0, TOKENS):
            _store(rows[i], rows[i + 1], rows[i + 2], rows[i + 3], taps,
                   out_ptr + i * stride_out, inside, eps, UNIT)  # fmt: skip
    else:
        previous_ptr += row * 3
        for i in range(0, tl.minimum(tokens - first, TOKENS)):
            x3 = _older(x_ptr, previous_ptr + i * 3 + 2, stride_x, inside)
            x2 = _older(x_ptr, previous_ptr + i * 3 + 1, stride_x, inside)
            x1 = _older(x_ptr, previous_ptr + i * 3, stride_x, inside)
            x0 = tl.load(x_ptr + (row + i) * stride_x, inside, 0.0)
            _store(x3, x2, x1, x0, taps, out_ptr + i * stride_out, inside, eps, UNIT)


@triton.jit(do_not_specialize=["tokens"])
def conv_kernel(
    x_ptr, weight_ptr, previous_ptr, out_ptr, unit_ptr, tokens, channels, stride_x, stride_c,
    stride_tap, eps, UNITS: tl.constexpr, TOKENS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """The first UNITS channels go to `unit` as unit rows, the others to `out`."""
    c = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    first = tl.program_id(1) * TOKENS
    inside = c < channels
    taps = ()
    for tap in tl.static_range(0, 4):
        at = weight_ptr + tap * stride_tap + c * stride_c
        taps = taps + (tl.load(at, mask=inside, other=0.0).to(tl.float32),)  # noqa: RUF005
    unit = tl.program_id(0) * CHANNELS < UNITS
    if (UNITS > 0) & unit:
        _run(x_ptr + c, previous_ptr, unit_ptr + c, taps, first, tokens, stride_x, UNITS,
             inside, eps, TOKENS, True)  # fmt: skip
    else:
        _run(x_ptr + c, previous_ptr, out_ptr + c, taps, first, tokens, stride_x, channels,
             inside, eps, TOKENS, False)  # fmt: skip


def causal_conv_silu(
    x: Tensor,
    weight: Tensor,
    tables: DeviceTables,
    *,
    out: Tensor | None = None,
    units: Tensor | None = None,
    eps: float = 1e-6,
) -> Tensor:
    """See `reference.causal_conv_silu`. Fastest with the weight stored tap by tap (strides 1, N).
    The sum is fused multiply-adds, oldest token first.

    With `units` fp16 [T, U] the first U channels (heads of 128) go there, each head of a token
    divided by its length sqrt(sum x^2 + eps) in FP32; those channels of `out` stay unwritten."""
    assert x.dtype == torch.bfloat16
    assert x.stride(1) == 1
    tokens, channels = x.shape
    if out is None:
        out = torch.empty(tokens, channels, dtype=x.dtype, device=x.device)
    assert out.is_contiguous()
    width, block = 0, _CHANNELS
    if units is not None:
        assert units.is_contiguous()
        width = units.shape[1]
        while width % block:
            block //= 2
        assert block >= HEAD.value, f"{width} channels are not heads of {HEAD.value}"
    run = _SHORT_TOKENS if tokens <= _SHORT_ROWS else _TOKENS
    grid = (triton.cdiv(channels, block), triton.cdiv(tokens, run))
    conv_kernel[grid](
        x, weight, tables.conv_prev, out, out if units is None else units, tokens, channels,
        x.stride(0), *weight.stride(), eps,
        UNITS=width, TOKENS=run, CHANNELS=block, num_warps=_WARPS,
    )  # fmt: skip
    return out
