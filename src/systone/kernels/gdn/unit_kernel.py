"""Unit rows of queries and keys, where no convolution has left them (`conv` makes the same)."""

import triton
import triton.language as tl


@triton.jit
def gdn_unit_kernel(
    qkv_ptr, unit_ptr, stride_x, eps,
    HEADS: tl.constexpr, ROWS: tl.constexpr, DK: tl.constexpr,
):  # fmt: skip
    """One token: its first HEADS heads of DK values, each divided by sqrt(sum x^2 + eps), as fp16.
    ROWS: HEADS rounded up to a power of two."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.arange(0, ROWS)[:, None]
    at = head * DK + tl.arange(0, DK)[None, :]
    inside = (head < HEADS) & (at >= 0)
    x = tl.load(qkv_ptr + token * stride_x + at, mask=inside, other=0.0).to(tl.float32)
    norm = tl.rsqrt(tl.sum(x * x, axis=1) + eps)
    unit = (x * norm[:, None]).to(unit_ptr.dtype.element_ty)
    tl.store(unit_ptr + token * (HEADS * DK) + at, unit, mask=inside)
