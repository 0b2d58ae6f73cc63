"""Head RMS norm and partial rotary embedding (rotate-half) as plain torch, rounded where
transformers 5.17.0 rounds. T rows, H heads, D head width, P rotary pairs (2P of D are rotated).
Every row stands alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

from systone.kernels.norm.reference import rms_norm
from systone.kernels.outputs import place


def rotary_table(
    positions: Tensor,
    *,
    theta: float,
    rotary_dim: int,
    sections: tuple[int, ...],
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """cos and sin [T, P] of each token's angles, FP32 rounded to `dtype`; P = rotary_dim / 2.

    positions int32 [T], or [3, T] per M-RoPE axis (time, height, width). Pair i turns by
    position * theta^(-2i / rotary_dim); the axes interleave: pair i follows height where i % 3 == 1
    and i < 3 * sections[1], width where i % 3 == 2 and i < 3 * sections[2], time elsewhere."""
    axes = positions.expand(3, -1) if positions.dim() == 1 else positions
    steps = torch.arange(0, rotary_dim, 2, dtype=torch.float32, device=positions.device)
    inverse = 1.0 / (theta ** (steps / rotary_dim))
    axis_of = torch.zeros(rotary_dim // 2, dtype=torch.long, device=positions.device)
    for axis in (1, 2):
        axis_of[axis : 3 * sections[axis] : 3] = axis
    angles = axes.float()[axis_of].T * inverse
    return angles.cos().to(dtype), angles.sin().to(dtype)


def norm_rope(
    x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, eps: float, *, out: Tensor | None = None
) -> Tensor:
    """RMS norm over each head (zero-centred weight), then rotary on the first 2P of D.

    x [T, H, D] (any strides), weight [D], cos and sin [T, P] in x's dtype -> [T, H, D] contiguous.
    Rounding points: the normed value, each of the two products, their sum."""
    normed = rms_norm(x, weight, eps)
    pairs = cos.shape[-1]
    first, second = normed[..., :pairs], normed[..., pairs : 2 * pairs]
    c, s = cos[:, None, :], sin[:, None, :]
    turned = (first * c - second * s, second * c + first * s, normed[..., 2 * pairs :])
    return place(torch.cat(turned, dim=-1), out)


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
    """`norm_rope` of queries [T, Hq, D] and keys [T, Hk, D] at once (views of one projection)."""
    return (
        norm_rope(q, q_weight, cos, sin, eps, out=q_out),
        norm_rope(k, k_weight, cos, sin, eps, out=k_out),
    )
