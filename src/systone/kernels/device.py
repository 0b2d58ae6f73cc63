"""Device functions several Triton kernels share: roundings, activations, bf16 pairs.

Knows no operator and no table. All maths is FP32; `bf16` tensors are only loaded, stored and
multiplied on tensor cores.
"""

import triton
import triton.language as tl
from triton import knobs

ASSEMBLY = tl.constexpr(not knobs.runtime.interpret)  # the interpreter knows no inline assembly


@triton.jit
def round_to(x, dtype: tl.constexpr):
    """FP32 `x` rounded to `dtype` and widened again: one rounding point of the official model."""
    return x.to(dtype).to(tl.float32)


@triton.jit
def round_bf16(x):
    """`round_to(x, bfloat16)` two values at a time: alone, each would take a slow conversion unit.
    For tensors with an even number of elements a thread."""
    if ASSEMBLY:
        return tl.inline_asm_elementwise(
            """{
            .reg .b32 both, low, high;
            cvt.rn.bf16x2.f32 both, $3, $2;
            shl.b32 low, both, 16;
            and.b32 high, both, 0xffff0000;
            mov.b32 $0, low;
            mov.b32 $1, high;
            }""",
            "=f,=f,f,f",
            [x],
            dtype=tl.float32,
            is_pure=True,
            pack=2,
        )
    return round_to(x, tl.bfloat16)


@triton.jit
def low_bf16(words):
    """The lower bf16 of each 32-bit word, as FP32."""
    return (words << 16).to(tl.float32, bitcast=True)


@triton.jit
def high_bf16(words):
    """The upper bf16 of each 32-bit word, as FP32."""
    return (words & -65536).to(tl.float32, bitcast=True)


@triton.jit
def pack_bf16(low, high):
    """Two FP32 values rounded to bf16, in one 32-bit word."""
    if ASSEMBLY:
        return tl.inline_asm_elementwise(
            "cvt.rn.bf16x2.f32 $0, $2, $1;",
            "=r,f,f",
            [low, high],
            dtype=tl.int32,
            is_pure=True,
            pack=1,
        )
    low = low.to(tl.bfloat16).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
    return low | (high.to(tl.bfloat16).to(tl.int16, bitcast=True).to(tl.int32) << 16)


@triton.jit
def quick_silu(x):
    """`silu` by approximate exponential and reciprocal (2 units in the last place, FP32), without
    their care for subnormal numbers: for results rounded to bf16."""
    if ASSEMBLY:
        return tl.inline_asm_elementwise(
            """{
            .reg .f32 t;
            mul.f32 t, $1, 0fBFB8AA3B;
            ex2.approx.ftz.f32 t, t;
            add.f32 t, t, 0f3F800000;
            rcp.approx.ftz.f32 t, t;
            mul.f32 $0, $1, t;
            }""",
            "=f,f",
            [x],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )
    return silu(x)


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
