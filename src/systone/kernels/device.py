"""Device functions several Triton kernels share: roundings, activations, bf16 pairs.

Knows no operator and no table. All maths is FP32; `bf16` tensors are only loaded, stored and
multiplied on tensor cores.
"""

import triton
import triton.language as tl


@triton.jit
def round_to(x, dtype: tl.constexpr):
    """FP32 `x` rounded to `dtype` and widened again: one rounding point of the official model."""
    return x.to(dtype).to(tl.float32)


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def silu(x):
    return x / (1.0 + tl.exp(-x))


@triton.jit
def softplus(x):
    """log(1 + e^x), `x` itself above 20 as torch has it. The quotient keeps log1p's precision
    where 1 + e^x rounds (Kahan)."""
    grown = tl.exp(tl.minimum(x, 20.0))
    one_more = 1.0 + grown
    lost = one_more - 1.0
    corrected = tl.log(one_more) * (grown / tl.where(lost == 0.0, 1.0, lost))
    return tl.where(x > 20.0, x, tl.where(lost == 0.0, grown, corrected))


@triton.jit
def bf16_pair(x):
    """FP32 `x` as high + low bf16 parts: 16 bits of mantissa on bf16 tensor cores."""
    high = x.to(tl.bfloat16)
    low = (x - high.to(tl.float32)).to(tl.bfloat16)
    return high, low
