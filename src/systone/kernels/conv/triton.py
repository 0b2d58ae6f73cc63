"""Causal convolution and SiLU on a GPU; signature of `reference`. T tokens, N channels (q|k|v).

A program takes a block of channels of a run of tokens and asks for every row of the run and the
three before it at once, before the table that names the predecessors has come. Channels come as
pairs of bf16 in one word: even ones low, odd ones high.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from systone.kernels.device import high_bf16, low_bf16, pack_bf16, quick_silu
from systone.nn.device_tables import DeviceTables

HEAD = tl.constexpr(128)
GROUP = tl.constexpr(4)  # tokens summed side by side
_CHANNELS, _WARPS = 512, 4  # of one program; four channels a thread, so that a warp has a head
_TOKENS = 8
_SHORT_ROWS, _SHORT_TOKENS = 256, 4  # more programs where there are few


@triton.jit
def _sum(x3, x2, x1, x0, taps):
    """Explicit fused sums, oldest first: every way of loading the rows gives the same bits."""
    total = x3 * taps[0]
    total = tl.fma(x2, taps[1], total)
    total = tl.fma(x1, taps[2], total)
    return tl.fma(x0, taps[3], total)


@triton.jit
def _activate(rows, lows, highs):
    """One token's pairs from its own row and the three before it, oldest first."""
    x3, x2, x1, x0 = rows
    low = _sum(low_bf16(x3), low_bf16(x2), low_bf16(x1), low_bf16(x0), lows)
    high = _sum(high_bf16(x3), high_bf16(x2), high_bf16(x1), high_bf16(x0), highs)
    words = pack_bf16(low, high)
    return pack_bf16(quick_silu(low_bf16(words)), quick_silu(high_bf16(words)))


@triton.jit
def _heads(words):
    """[heads, HEAD] FP32 of a token's pairs."""
    out = tl.interleave(low_bf16(words), high_bf16(words))
    return tl.reshape(out, (out.shape[0] // HEAD, HEAD))


@triton.jit
def _add_each(a0, a1, a2, a3, b0, b1, b2, b3):
    return a0 + b0, a1 + b1, a2 + b2, a3 + b3


@triton.jit
def _store(
    windows, lows, highs, out_ptr, stride_out, first, tokens, inside, each, eps,
    UNIT: tl.constexpr,
):  # fmt: skip
    """GROUP tokens from `first` on. Their lengths are summed together: one sum's shuffles fill the
    waits of the others."""
    words = ()
    for i in tl.static_range(0, GROUP):
        words = words + (_activate(windows[i], lows, highs),)  # noqa: RUF005
    if UNIT:
        heads, squares = (), ()
        for i in tl.static_range(0, GROUP):
            heads = heads + (_heads(words[i]),)  # noqa: RUF005
            squares = squares + (heads[i] * heads[i],)  # noqa: RUF005
        sums = tl.reduce(squares, 1, _add_each)
        for i in tl.static_range(0, GROUP):
            out = heads[i] * tl.rsqrt(sums[i] + eps)[:, None]
            out = tl.reshape(out, each.shape).to(out_ptr.dtype.element_ty)
            to = out_ptr + i * stride_out + tl.arange(0, each.shape[0])
            tl.store(to, out, each & (first + i < tokens))
    else:
        for i in tl.static_range(0, GROUP):
            to = (out_ptr + i * stride_out).to(tl.pointer_type(tl.int32))
            to += tl.arange(0, inside.shape[0])
            tl.store(to, words[i], inside & (first + i < tokens))


@triton.jit
def _borders(previous_ptr, first, tokens, TOKENS: tl.constexpr):
    """[4 TOKENS] 1 where a predecessor is not the row right before, or no row before the first."""
    j = tl.arange(0, 4 * TOKENS)
    t = first + j // 4
    before = j % 4  # the predecessor's distance less one; three of four
    live = (t < tokens) & (before < 3)
    found = tl.load(previous_ptr + t * 3 + before, mask=live, other=0)
    return (live & (found != tl.maximum(t - 1 - before, -1))).to(tl.int32)


@triton.jit
def _by_table(x_ptr, previous_ptr, first, tokens, stride, inside):
    """The windows of GROUP tokens from `first` on, row by row by the table."""
    windows = ()
    for i in tl.static_range(0, GROUP):
        t = first + i
        live = t < tokens
        rows = ()
        for distance in tl.static_range(3, 0, -1):
            at = previous_ptr + t * 3 + distance - 1
            token = tl.load(at, mask=live, other=-1).to(tl.int64)
            row = tl.load(x_ptr + token * stride, inside & (token >= 0), 0)
            rows = rows + (row,)  # noqa: RUF005
        own = tl.load(x_ptr + t.to(tl.int64) * stride, inside & live, 0)
        windows = windows + (rows + (own,),)  # noqa: RUF005
    return windows


@triton.jit
def _window(rows, i: tl.constexpr):
    return rows[i], rows[i + 1], rows[i + 2], rows[i + 3]


@triton.jit
def _rows(at, inside, stride: tl.constexpr, TOKENS: tl.constexpr):
    """TOKENS rows from `at` on and the three before, oldest first."""
    rows = ()
    for i in tl.static_range(-3, TOKENS):
        rows = rows + (tl.load(at + i * stride, inside, 0),)  # noqa: RUF005
    return rows


@triton.jit
def _live_rows(at, first, tokens, inside, stride: tl.constexpr, TOKENS: tl.constexpr):
    """`_rows` at an end of the pass: zeros where it has none."""
    rows = ()
    for i in tl.static_range(-3, TOKENS):
        live = first + i >= 0 if i < 0 else first + i < tokens
        rows = rows + (tl.load(at + i * stride, inside & live, 0),)  # noqa: RUF005
    return rows


@triton.jit
def _run(
    x_ptr, previous_ptr, out_ptr, lows, highs, first, tokens, stride: tl.constexpr,
    stride_out: tl.constexpr, inside, each, eps, TOKENS: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """TOKENS tokens from `first` on. Without a border among them every row is read once."""
    at = x_ptr + first.to(tl.int64) * stride
    if (first > 2) & (first + TOKENS <= tokens):
        rows = _rows(at, inside, stride, TOKENS)
    else:
        rows = _live_rows(at, first, tokens, inside, stride, TOKENS)
    out_ptr += first.to(tl.int64) * stride_out
    if tl.max(_borders(previous_ptr, first, tokens, TOKENS), axis=0) == 0:
        for k in tl.static_range(0, TOKENS, 4):
            windows = (
                _window(rows, k),
                _window(rows, k + 1),
                _window(rows, k + 2),
                _window(rows, k + 3),
            )
            _store(windows, lows, highs, out_ptr + k * stride_out, stride_out, first + k, tokens,
                   inside, each, eps, UNIT)  # fmt: skip
    else:
        for after in range(0, TOKENS, 4):
            t = first + after
            windows = _by_table(x_ptr, previous_ptr, t, tokens, stride, inside)
            _store(windows, lows, highs, out_ptr + after * stride_out, stride_out, t, tokens,
                   inside, each, eps, UNIT)  # fmt: skip


@triton.jit(do_not_specialize=["tokens"])
def conv_kernel(
    x_ptr, weight_ptr, previous_ptr, out_ptr, unit_ptr, tokens, stride_c, stride_tap, eps,
    channels: tl.constexpr, stride_x: tl.constexpr, UNITS: tl.constexpr, TOKENS: tl.constexpr,
    CHANNELS: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """The first UNITS channels go to `unit` as unit rows, the others to `out`. WHOLE: no block of
    channels goes beyond the last one. Widths are a model's, so constants: rows of a run are then
    reached by offsets in the instruction."""
    PAIRS: tl.constexpr = CHANNELS // 2
    c = tl.program_id(0) * CHANNELS
    first = tl.program_id(1) * TOKENS
    each = (c + tl.arange(0, CHANNELS) < channels) | WHOLE
    inside = (c // 2 + tl.arange(0, PAIRS) < channels // 2) | WHOLE
    lows, highs = (), ()
    for tap in tl.static_range(0, 4):
        at = weight_ptr + tap * stride_tap + (c + tl.arange(0, CHANNELS)) * stride_c
        taps = tl.load(at, mask=each, other=0.0).to(tl.float32)
        low, high = tl.split(tl.reshape(taps, (PAIRS, 2)))
        lows = lows + (low,)  # noqa: RUF005
        highs = highs + (high,)  # noqa: RUF005
    pairs = (x_ptr + c).to(tl.pointer_type(tl.int32)) + tl.arange(0, PAIRS)
    if (UNITS > 0) & (c < UNITS):
        _run(pairs, previous_ptr, unit_ptr + c, lows, highs, first, tokens, stride_x // 2, UNITS,
              inside, each, eps, TOKENS, True)  # fmt: skip
    else:
        _run(pairs, previous_ptr, out_ptr + c, lows, highs, first, tokens, stride_x // 2, channels,
              inside, each, eps, TOKENS, False)  # fmt: skip


def causal_conv_silu(
    x: Tensor,
    weight: Tensor,
    tables: DeviceTables,
    *,
    out: Tensor | None = None,
    units: Tensor | None = None,
    eps: float = 1e-6,
) -> Tensor:
    """See `reference.causal_conv_silu`; N and the row stride of x are even. Fastest with the weight
    stored tap by tap (strides 1, N). The sum is fused multiply-adds, oldest token first.

    With `units` fp16 [T, U] the first U channels (heads of 128) go there, each head of a token
    divided by its length sqrt(sum x^2 + eps) in FP32; those channels of `out` stay unwritten."""
    assert x.dtype == torch.bfloat16
    assert x.stride(1) == 1
    tokens, channels = x.shape
    assert channels % 2 == 0
    assert x.stride(0) % 2 == 0
    assert x.data_ptr() % 4 == 0
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
        x, weight, tables.conv_prev, out, out if units is None else units, tokens,
        *weight.stride(), eps, channels=channels, stride_x=x.stride(0), UNITS=width, TOKENS=run,
        CHANNELS=block, WHOLE=channels % block == 0, num_warps=_WARPS,
    )  # fmt: skip
    return out
