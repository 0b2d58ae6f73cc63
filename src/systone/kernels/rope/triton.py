"""Head RMS norm and partial rotary embedding on a GPU; signatures of `reference`.

T rows, H heads, D head width, P rotary pairs. A program takes a block of heads of one row.
`rotary_table` is torch's own: it runs once, for every position, before serving starts.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from systone.kernels.device import round_bf16
from systone.kernels.rope import reference

_HEADS, _WARPS = 4, 2  # of one program


@triton.jit
def _rotate_store(
    x_ptr, weight_ptr, cos_ptr, sin_ptr, out_ptr, head, heads, stride_head, eps,
    D: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """Heads `head` [N] of one row; pointers stand at the row. The rotated halves are read again,
    from the cache: as tiles of their own their loads and stores stay wide."""
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    d = tl.arange(0, D)
    inside = (head < heads)[:, None]
    row = head[:, None] * stride_head
    to = head[:, None] * D
    x = tl.load(x_ptr + row + d[None, :], mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=1) / D + eps)[:, None]
    weight = 1.0 + tl.load(weight_ptr + d).to(tl.float32)
    kept = (x * scale * weight[None, :]).to(dtype)
    tl.store(out_ptr + to + d[None, :], kept, mask=inside & (d >= 2 * PAIRS)[None, :])

    p = tl.arange(0, PAIRS)
    cos = tl.load(cos_ptr + p).to(tl.float32)[None, :]
    sin = tl.load(sin_ptr + p).to(tl.float32)[None, :]
    first = _half(x_ptr + row, weight_ptr, p, inside, scale)
    second = _half(x_ptr + row + PAIRS, weight_ptr + PAIRS, p, inside, scale)
    turned = round_bf16(first * cos) - round_bf16(second * sin)
    tl.store(out_ptr + to + p[None, :], turned.to(dtype), mask=inside)
    turned = round_bf16(second * cos) + round_bf16(first * sin)
    tl.store(out_ptr + to + PAIRS + p[None, :], turned.to(dtype), mask=inside)


@triton.jit
def _half(x_ptr, weight_ptr, p, inside, scale):
    x = tl.load(x_ptr + p[None, :], mask=inside, other=0.0).to(tl.float32)
    weight = 1.0 + tl.load(weight_ptr + p).to(tl.float32)
    return round_bf16(x * scale * weight[None, :])


@triton.jit
def norm_rope_kernel(
    q_ptr, k_ptr, q_weight_ptr, k_weight_ptr, cos_ptr, sin_ptr, q_out_ptr, k_out_ptr,
    stride_q, stride_q_head, stride_k, stride_k_head, stride_cos, stride_sin, eps,
    HQ: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, PAIRS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The first cdiv(HQ, BLOCK) programs of a row take queries, the rest keys (HK may be 0)."""
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    cos_ptr += row * stride_cos
    sin_ptr += row * stride_sin
    QUERY_BLOCKS: tl.constexpr = (HQ + BLOCK - 1) // BLOCK
    if block < QUERY_BLOCKS:
        head = block * BLOCK + tl.arange(0, BLOCK)
        _rotate_store(q_ptr + row * stride_q, q_weight_ptr, cos_ptr, sin_ptr,
                      q_out_ptr + row * (HQ * D), head, HQ, stride_q_head, eps,
                      D, PAIRS)  # fmt: skip
    else:
        head = (block - QUERY_BLOCKS) * BLOCK + tl.arange(0, BLOCK)
        _rotate_store(k_ptr + row * stride_k, k_weight_ptr, cos_ptr, sin_ptr,
                      k_out_ptr + row * (HK * D), head, HK, stride_k_head, eps,
                      D, PAIRS)  # fmt: skip


def rotary_table(
    positions: Tensor,
    *,
    theta: float,
    rotary_dim: int,
    sections: tuple[int, ...],
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """See `reference.rotary_table`; rows are contiguous."""
    cos, sin = reference.rotary_table(
        positions, theta=theta, rotary_dim=rotary_dim, sections=sections, dtype=dtype
    )
    return cos.contiguous(), sin.contiguous()


def norm_rope(
    x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float, *, out: Tensor | None = None
) -> Tensor:
    """See `reference.norm_rope`."""
    if out is None:
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _launch(x, x, weight, weight, cos, sin, eps, out, out, keys=0)
    return out


def qk_norm_rope(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor,
    k_weight: Tensor,
    cos: Tensor,
    sin: Tensor,
    eps: float,
    *,
    q_out: Tensor | None = None,
    k_out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See `reference.qk_norm_rope`; one launch."""
    if q_out is None:
        q_out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if k_out is None:
        k_out = torch.empty(k.shape, dtype=k.dtype, device=k.device)
    _launch(q, k, q_weight, k_weight, cos, sin, eps, q_out, k_out, keys=k.shape[1])
    return q_out, k_out


def _launch(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor,
    k_weight: Tensor,
    cos: Tensor,
    sin: Tensor,
    eps: float,
    q_out: Tensor,
    k_out: Tensor,
    *,
    keys: int,
) -> None:
    rows, heads, width = q.shape
    assert q.dtype == torch.bfloat16
    assert q.stride(2) == 1
    assert k.stride(2) == 1
    assert cos.stride(1) == 1
    assert sin.stride(1) == 1
    assert q_out.is_contiguous()
    assert k_out.is_contiguous()
    assert width & (width - 1) == 0
    if rows == 0:
        return
    grid = (rows, triton.cdiv(heads, _HEADS) + triton.cdiv(keys, _HEADS))
    norm_rope_kernel[grid](
        q, k, q_weight, k_weight, cos, sin, q_out, k_out,
        q.stride(0), q.stride(1), k.stride(0), k.stride(1), cos.stride(0), sin.stride(0), eps,
        HQ=heads, HK=keys, D=width, PAIRS=cos.shape[1], BLOCK=_HEADS, num_warps=_WARPS,
        # fused multiply-adds would skip the rounding of the two products
        enable_fp_fusion=False,
    )  # fmt: skip
