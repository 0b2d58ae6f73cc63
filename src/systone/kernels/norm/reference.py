"""RMS norms as plain torch, rounded where transformers 5.17.0 (Qwen3_5RMSNorm, -RMSNormGated)
rounds. T rows, h hidden width, Hv value heads, Dv value head width. Every row stands alone.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import silu

from systone.kernels.outputs import place


def rms_norm(x: Tensor, weight: Tensor, eps: float, *, out: Tensor | None = None) -> Tensor:
    """x * rsqrt(mean(x^2) + eps) * (1 + weight) in FP32, rounded once.

    x [..., h] FP32 or bf16, weight [h] -> like x. The weight is zero-centred."""
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return place((wide * scale * (1.0 + weight.float())).to(x.dtype), out)


def add_rms_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    eps: float,
    *,
    out: Tensor | None = None,
    residual_out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(rms_norm(residual + x), residual + x); the sum is rounded to the dtype before it is normed.

    x, residual [T, h] -> two tensors [T, h]. `residual_out` may be `residual` itself."""
    total = place(residual + x, residual_out)
    return rms_norm(total, weight, eps, out=out), total


def gated_rms_norm(
    x: Tensor, gate: Tensor, weight: Tensor, eps: float, *, out: Tensor | None = None
) -> Tensor:
    """Norm each value head, times weight, times SiLU(gate).

    x [T, Hv, Dv], gate [T, Hv * Dv] (a view with a row stride is fine), weight [Dv] (plain, not
    zero-centred) -> [T, Hv * Dv] in x's dtype. Rounding points: the normed value, its product with
    the weight, and the result after an FP32 product with SiLU(gate in FP32)."""
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    normed = (wide * scale).to(x.dtype) * weight
    gated = normed.float() * silu(gate.float()).view_as(x)
    return place(gated.to(x.dtype).flatten(1), out)
