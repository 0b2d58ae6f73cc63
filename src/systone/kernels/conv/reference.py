"""Causal depthwise convolution of width 4 plus SiLU as plain torch. T tokens, N channels (q|k|v).

A token's predecessors come from `conv_prev`, so they may lie in ancestors of any length. Every
token stands alone.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import silu

from systone.kernels.outputs import place
from systone.nn.device_tables import DeviceTables


def causal_conv_silu(
    x: Tensor, weight: Tensor, tables: DeviceTables, *, out: Tensor | None = None
) -> Tensor:
    """silu(w0 x[t-3] + w1 x[t-2] + w2 x[t-1] + w3 x[t]) with zeros before a path's first token.

    x [T, N] (a view with a row stride is fine), weight [N, 4] -> [T, N] in x's dtype. The sum is
    FP32, oldest token first, rounded to the dtype; then SiLU in FP32, rounded again."""
    taps = weight.float()
    total = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for tap, distance in enumerate((3, 2, 1)):
        index = tables.conv_prev[:, distance - 1].long()
        older = x[index.clamp(min=0)].float()
        # A mask on the value, not a product: a NaN in an unrelated row must not get in.
        total += torch.where(index[:, None] < 0, 0.0, older) * taps[:, tap]
    total += x.float() * taps[:, 3]
    return place(silu(total.to(x.dtype)), out)
