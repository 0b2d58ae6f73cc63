"""A text stack with the scalar decision head: one FP32 score per read-out row.

Knows no files and no calibration. R read-outs, h hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from systone.errors import ConfigError
from systone.nn.config import TextConfig
from systone.nn.device_tables import DeviceTables
from systone.nn.ops import REFERENCE, Ops
from systone.nn.qwen3_5 import TextStack
from systone.nn.text_weights import fuse_text_weights


class HeadedWeights(Protocol):
    """What a loaded checkpoint offers: canonical tensors of the stack, and its scalar head."""

    @property
    def config(self) -> TextConfig: ...
    @property
    def tensors(self) -> Mapping[str, Tensor]: ...
    @property
    def head_weight(self) -> Tensor: ...
    @property
    def head_bias(self) -> Tensor: ...


@dataclass(frozen=True, slots=True, eq=False)
class DecisionModel:
    """`head_weight` FP32 [1, h] and `head_bias` FP32 [1] on the stack's device."""

    stack: TextStack
    head_weight: Tensor
    head_bias: Tensor

    @classmethod
    def build(
        cls,
        weights: HeadedWeights,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
        ops: Ops = REFERENCE,
        consume: bool = False,
    ) -> DecisionModel:
        """Place a loaded checkpoint on `device`. Raises ConfigError naming a misshapen tensor.

        `consume`: see `fuse_text_weights`."""
        config = weights.config
        shapes = tuple(weights.head_weight.shape), tuple(weights.head_bias.shape)
        if shapes != ((1, config.hidden_size), (1,)):
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
        """FP32 head scores [R, 1] in read-out order."""
        hidden = self.stack.readouts(tables)
        return self.stack.ops.scalar_head(hidden, self.head_weight, self.head_bias)
