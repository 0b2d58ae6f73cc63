"""The read-out head of a GPU pass: which kernel reads a model's final hidden states.

Owns the choice by the model's kind and what it needs of the arena; knows no layers and no
questions. R padded read-outs, W read-out width, d pointer width, h hidden.
"""

from __future__ import annotations

import torch
from torch import Tensor

from systone.errors import ConfigError
from systone.execute.gpu_arena import Arena
from systone.kernels.head import triton as head
from systone.kernels.work import READOUTS, WorkTables
from systone.nn.decision import DecisionModel
from systone.nn.label_model import LabelModel
from systone.nn.pointer_model import PointerModel

__all__ = ["check_head", "read_out", "readout_width"]


def readout_width(model: DecisionModel) -> int:
    """W of the model's scores. Raises ConfigError: a head that no kernel here reads."""
    if type(model) is LabelModel:
        return int(model.head_weight.shape[0])
    if type(model) in (DecisionModel, PointerModel):
        return 1
    raise ConfigError(f"the GPU kernels have no head for a {type(model).__name__}")


def check_head(model: DecisionModel, arena: Arena) -> None:
    """Raises ConfigError: no kernel reads the head, or the arena has no room for its scores or for
    what they are made of."""
    room, width = arena.room, readout_width(model)
    if width != room.width:
        raise ConfigError(f"this model has {width} scores a read-out, its arena {room.width}")
    wanted = 2 * model.head_weight.shape[0] * room.readouts
    if type(model) is PointerModel and arena.elements("last_wide") < wanted:
        raise ConfigError("weights: the pointer is wider than a layer's projections")


def read_out(
    model: DecisionModel, hidden: Tensor, tables: WorkTables, arena: Arena, out: Tensor
) -> Tensor:
    """Enqueue the head: hidden bf16 [R, h] -> `out` FP32 [R, W], in read-out order; pad rows are
    left unwritten."""
    live = tables.counts[READOUTS : READOUTS + 1]
    if type(model) is LabelModel:
        return head.label_head(hidden, model.head_weight, out=out, live=live)
    if type(model) is not PointerModel:
        return head.scalar_head(hidden, model.head_weight, model.head_bias, out=out, live=live)
    q_weight, k_weight = model.head_weight.chunk(2)
    q_bias, k_bias = model.head_bias.chunk(2)
    # The last layer's projections are spent by now: two FP32 matrices [R, d] take their place.
    spent = arena.take("last_wide", 2, hidden.shape[0], 2 * q_weight.shape[0])
    queries, keys = spent.view(torch.float32)
    return head.readout_pointer_head(
        hidden, tables.readout_query, q_weight, q_bias, k_weight, k_bias,
        out=out, scratch=(queries, keys), live=live,
    )  # fmt: skip
