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
def _half(x, weight, scale):
    return round_bf16(x.to(tl.float32) * scale * (1.0 + weight.to(tl.float32)))


@triton.jit
def _rotate_store(
    x_ptr, weight_ptr, cos_ptr, sin_ptr, out_ptr, first, heads, stride_head, eps,
    D: tl.constexpr, PAIRS: tl.constexpr, BLOCK: tl.constexpr, WARPS: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """BLOCK heads of one row from `first` on; pointers stand at the row. WHOLE: all are there.

    The rotated halves are read again, from the cache: as tiles of their own their loads and stores
    stay wide. Of the tile of whole heads a warp has every WARPS-th row, of the tile of halves BLOCK
    / WARPS neighbours; `mine` names the halves so that both are the same heads and no scale has to
    cross warps. Vectors are loaded as tiles, each thread what it needs: nothing is exchanged."""
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    n = tl.arange(0, BLOCK)
    d = tl.arange(0, D)[None, :]
    p = tl.arange(0, PAIRS)[None, :]
    zero = 0 * n[:, None]
    head = first + n
    mine = first + (n % (BLOCK // WARPS)) * WARPS + n // (BLOCK // WARPS)
    inside = (head < heads)[:, None] | WHOLE
    inside_mine = (mine < heads)[:, None] | WHOLE
    at = x_ptr + (mine * stride_head)[:, None] + p
    x = tl.load(x_ptr + (head * stride_head)[:, None] + d, mask=inside, other=0.0)
    low = tl.load(at, mask=inside_mine, other=0.0)
    high = tl.load(at + PAIRS, mask=inside_mine, other=0.0)
    weight = tl.load(weight_ptr + zero + d)
    low_weight = tl.load(weight_ptr + zero + p)
    high_weight = tl.load(weight_ptr + PAIRS + zero + p)
    cos = tl.load(cos_ptr + zero + p).to(tl.float32)
    sin = tl.load(sin_ptr + zero + p).to(tl.float32)

    x = x.to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=1) / D + eps)
    kept = (x * scale[:, None] * (1.0 + weight.to(tl.float32))).to(dtype)
    scale = tl.reshape(tl.trans(tl.reshape(scale, (BLOCK // WARPS, WARPS))), (BLOCK,))[:, None]
    first_half = _half(low, low_weight, scale)
    second_half = _half(high, high_weight, scale)
    tl.store(out_ptr + (head * D)[:, None] + d, kept, mask=inside & (d >= 2 * PAIRS))
    to = out_ptr + (mine * D)[:, None] + p
    turned = round_bf16(first_half * cos) - round_bf16(second_half * sin)
    tl.store(to, turned.to(dtype), mask=inside_mine)
    turned = round_bf16(second_half * cos) + round_bf16(first_half * sin)
    tl.store(to + PAIRS, turned.to(dtype), mask=inside_mine)


@triton.jit
def norm_rope_kernel(
    q_ptr, k_ptr, q_weight_ptr, k_weight_ptr, cos_ptr, sin_ptr, q_out_ptr, k_out_ptr,
    stride_q, stride_q_head, stride_k, stride_k_head, stride_cos, stride_sin, eps,
    HQ: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, PAIRS: tl.constexpr, BLOCK: tl.constexpr,
    KEY_BLOCK: tl.constexpr, WARPS: tl.constexpr,
):  # fmt: skip
    """The first cdiv(HQ, BLOCK) programs of a row take queries, the rest keys (HK may be 0)."""
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    cos_ptr += row * stride_cos
    sin_ptr += row * stride_sin
    QUERY_BLOCKS: tl.constexpr = (HQ + BLOCK - 1) // BLOCK
    if block < QUERY_BLOCKS:
        _rotate_store(q_ptr + row * stride_q, q_weight_ptr, cos_ptr, sin_ptr,
                      q_out_ptr + row * (HQ * D), block * BLOCK, HQ, stride_q_head, eps,
                      D, PAIRS, BLOCK, WARPS, HQ % BLOCK == 0)  # fmt: skip
    else:
        _rotate_store(k_ptr + row * stride_k, k_weight_ptr, cos_ptr, sin_ptr,
                      k_out_ptr + row * (HK * D), (block - QUERY_BLOCKS) * KEY_BLOCK, HK,
                      stride_k_head, eps, D, PAIRS, KEY_BLOCK, WARPS,
                      HK % KEY_BLOCK == 0)  # fmt: skip


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
    key_block = max(_WARPS, min(_HEADS, triton.next_power_of_2(max(keys, 1))))
    grid = (rows, triton.cdiv(heads, _HEADS) + triton.cdiv(keys, key_block))
    norm_rope_kernel[grid](
        q, k, q_weight, k_weight, cos, sin, q_out, k_out,
        q.stride(0), q.stride(1), k.stride(0), k.stride(1), cos.stride(0), sin.stride(0), eps,
        HQ=heads, HK=keys, D=width, PAIRS=cos.shape[1], BLOCK=_HEADS,
        KEY_BLOCK=key_block, WARPS=_WARPS, num_warps=_WARPS,
        # fused multiply-adds would skip the rounding of the two products
        enable_fp_fusion=False,
    )  # fmt: skip
