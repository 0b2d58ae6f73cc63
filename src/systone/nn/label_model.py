"""A text stack read by label tokens: FP32 logits of chosen rows of the output matrix.

Knows no files, no tokenizer and no questions. R read-outs, W label tokens, h hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from systone.errors import ConfigError
from systone.kernels.head.reference import label_head
from systone.nn.config import TextConfig
from systone.nn.decision import DecisionModel
from systone.nn.device_tables import DeviceTables
from systone.nn.ops import REFERENCE, Ops
from systone.nn.qwen3_5 import TextStack
from systone.nn.text_weights import fuse_text_weights

__all__ = ["LabelModel"]


@dataclass(frozen=True, slots=True, eq=False)
class LabelModel(DecisionModel):
    """A DecisionModel whose head has W rows: `head_weight` FP32 [W, h], `head_bias` zeros [W]."""

    @classmethod
    def of_tensors(
        cls,
        tensors: Mapping[str, Tensor],
        config: TextConfig,
        label_rows: Tensor,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
        ops: Ops = REFERENCE,
        consume: bool = False,
    ) -> LabelModel:
        """Place canonical tensors and the label rows [W, h] on `device`.

        Raises ConfigError naming a misshapen tensor. `consume`: see `fuse_text_weights`."""
        if label_rows.ndim != 2 or label_rows.shape[1] != config.hidden_size:
            raise ConfigError(f"weights: the label rows have shape {tuple(label_rows.shape)}")
        fused = fuse_text_weights(tensors, config, dtype=dtype, device=device, consume=consume)
        rows = label_rows.to(device=device, dtype=torch.float32).contiguous()
        return cls(TextStack(config, fused, ops), rows, rows.new_zeros(rows.shape[0]))

    def scores(self, tables: DeviceTables) -> Tensor:
        """FP32 logits [R, W] in read-out order."""
        return label_head(self.stack.readouts(tables), self.head_weight)
