"""A text stack with a pointer head: a row's options are scored against the row's last read-out.

Ragged rows stay flat: one logit per read-out, beside those of its own row. Knows no files, no
tokenizer and no questions. R read-outs, d pointer width, h hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from systone.errors import ConfigError
from systone.nn.decision import DecisionModel, HeadedWeights
from systone.nn.device_tables import DeviceTables
from systone.nn.ops import REFERENCE, Ops
from systone.nn.qwen3_5 import TextStack
from systone.nn.text_weights import fuse_text_weights

__all__ = ["PointerModel"]


@dataclass(frozen=True, slots=True, eq=False)
class PointerModel(DecisionModel):
    """`head_weight` FP32 [2d, h], `head_bias` FP32 [2d]: the query projection, then the keys'."""

    @classmethod
    def build(
        cls,
        weights: HeadedWeights,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
        ops: Ops = REFERENCE,
        consume: bool = False,
    ) -> PointerModel:
        """Place a loaded checkpoint on `device`. Raises ConfigError naming a misshapen tensor.

        `consume`: see `fuse_text_weights`."""
        config, rows = weights.config, weights.head_weight.shape[0]
        shapes = tuple(weights.head_weight.shape), tuple(weights.head_bias.shape)
        if rows % 2 or shapes != ((rows, config.hidden_size), (rows,)):
            raise ConfigError(f"weights: the head has shapes {shapes[0]} and {shapes[1]}")
        tensors = fuse_text_weights(
            weights.tensors, config, dtype=dtype, device=device, consume=consume
        )
        return cls(
            stack=TextStack(config, tensors, ops),
            head_weight=weights.head_weight.to(device=device, dtype=torch.float32),
            head_bias=weights.head_bias.to(device=device, dtype=torch.float32),
        )

    def scores(self, tables: DeviceTables) -> Tensor:
        """FP32 logits [R, 1] in read-out order; that of a row's last read-out, against itself,
        says nothing."""
        return self.point(self.stack.readouts(tables), tables.readout_query)

    def point(self, hidden: Tensor, readout_query: Tensor) -> Tensor:
        """The head alone: hidden states [R, h], each scored against a read-out -> [R, 1]."""
        ops = self.stack.ops
        queries, query_of = torch.unique(readout_query, return_inverse=True)
        q_weight, k_weight = self.head_weight.chunk(2)
        q_bias, k_bias = self.head_bias.chunk(2)
        return ops.pointer_head(
            ops.gather_rows(hidden, queries.int()),
            hidden,
            query_of.int(),
            q_weight,
            q_bias,
            k_weight,
            k_bias,
        )
