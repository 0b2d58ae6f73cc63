"""The MLP's gated activation as plain torch. T rows, I intermediate width. Elementwise."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import silu

from systone.kernels.outputs import place


def swiglu(gate_up: Tensor, *, out: Tensor | None = None) -> Tensor:
    """silu(gate) * up of gate_up [T, 2I] = gate|up -> [T, I]; SiLU in FP32 is rounded to the dtype
    before the product, which is rounded again."""
    gate, up = gate_up.chunk(2, dim=-1)
    return place(silu(gate) * up, out)
