"""Read-out heads of a GPU pass: which kernel reads a model's final hidden states, into what shape.

Owns the choice by the model's kind and what each needs of the arena; knows no layers and no
questions. R padded read-outs, W read-out width, d pointer width, h hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from systone.errors import ConfigError
from systone.execute.gpu_arena import Arena
from systone.kernels.head import triton as head
from systone.kernels.work import WorkTables
from systone.nn.decision import DecisionModel
from systone.nn.label_model import LabelModel
from systone.nn.pointer_model import PointerModel

__all__ = ["GpuHead", "head_of", "readout_width"]


class GpuHead(Protocol):
    """Enqueues the head of a pass."""

    def launch(self, hidden: Tensor, tables: WorkTables, arena: Arena, out: Tensor) -> Tensor:
        """hidden bf16 [R, h] -> `out` FP32 [R, W], in read-out order."""


@dataclass(frozen=True, slots=True, eq=False)
class ScalarHead:
    """One score a read-out. weight FP32 [1, h], bias FP32 [1]."""

    weight: Tensor
    bias: Tensor

    def launch(self, hidden: Tensor, tables: WorkTables, arena: Arena, out: Tensor) -> Tensor:
        return head.scalar_head(hidden, self.weight, self.bias, out=out)


@dataclass(frozen=True, slots=True, eq=False)
class LabelHead:
    """W logits a read-out. weight FP32 [W, h]."""

    weight: Tensor

    def launch(self, hidden: Tensor, tables: WorkTables, arena: Arena, out: Tensor) -> Tensor:
        return head.label_head(hidden, self.weight, out=out)


@dataclass(frozen=True, slots=True, eq=False)
class PointerHead:
    """Each read-out against the last one of its row. Projections FP32 [d, h] with biases [d]."""

    q_weight: Tensor
    q_bias: Tensor
    k_weight: Tensor
    k_bias: Tensor

    def launch(self, hidden: Tensor, tables: WorkTables, arena: Arena, out: Tensor) -> Tensor:
        rows, width = hidden.shape[0], self.q_weight.shape[0]
        # The last layer's projections are spent by now: two FP32 matrices take their place.
        spent = arena.take("last_wide", 2, rows, 2 * width).view(torch.float32)
        return head.readout_pointer_head(
            hidden, tables.readout_query, self.q_weight, self.q_bias, self.k_weight, self.k_bias,
            out=out, scratch=(spent[0], spent[1]),
        )  # fmt: skip


def readout_width(model: DecisionModel) -> int:
    """W of the model's scores. Raises ConfigError: a head that no kernel here reads."""
    if type(model) is LabelModel:
        return int(model.head_weight.shape[0])
    if type(model) in (DecisionModel, PointerModel):
        return 1
    raise ConfigError(f"the GPU kernels have no head for a {type(model).__name__}")


def head_of(model: DecisionModel, arena: Arena) -> GpuHead:
    """The model's head over this arena. Raises ConfigError: no kernel reads it, or the arena's
    rows are too narrow for its projections."""
    if readout_width(model) != arena.room.width:
        raise ConfigError(f"an arena of width {arena.room.width} can't hold this model's scores")
    if type(model) is LabelModel:
        return LabelHead(model.head_weight)
    if type(model) is PointerModel:
        q_weight, k_weight = model.head_weight.chunk(2)
        if arena.elements("last_wide") < 4 * q_weight.shape[0] * arena.room.readouts:
            raise ConfigError(f"weights: a pointer of {q_weight.shape[0]} is too wide for a GPU")
        return PointerHead(
            q_weight, model.head_bias.chunk(2)[0], k_weight, model.head_bias.chunk(2)[1]
        )
    return ScalarHead(model.head_weight, model.head_bias)
