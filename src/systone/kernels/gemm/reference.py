"""Projections as plain torch. M rows, K inputs, N outputs.

FP32 on a GPU needs TF32 off; bits on the CPU may depend on M.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from systone.kernels.outputs import place


def linear(x: Tensor, weight: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`x @ weight.T`: x [M, K], weight [N, K], both FP32 or both bf16 -> [M, N] in their dtype.

    x may be a view with a row stride above K. bf16: products summed in FP32, rounded once."""
    return place(functional.linear(x, weight), out)
