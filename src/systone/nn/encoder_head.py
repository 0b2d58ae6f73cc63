"""The marker head: one logit per option from the hidden rows at the option markers.

Owns the arithmetic after the body: a type embedding, pre-norm transformer layers (ReLU, no
positions), a scorer. Knows no files, no prompts. The scorer is FP32. Axes: T tokens of all rows,
d hidden, M markers of all rows. Source of the layers: torch's `nn.TransformerEncoderLayer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from systone.nn.encoder import Block, EncoderBody, Product, attend, blocks
from systone.nn.encoder_config import MarkerConfig

__all__ = ["MarkerEncoder", "Rows"]

_EPS = 1e-5  # torch's default, which the official head uses


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows laid end to end. ids int64 [T]; `markers` int64 [M] count from the start of all rows;
    `kinds`: row of the type embedding, per row; `num_markers`: per row."""

    ids: Tensor
    lengths: tuple[int, ...]
    markers: Tensor
    num_markers: tuple[int, ...]
    kinds: tuple[int, ...]


class MarkerEncoder:
    """Body and head; `tensors` by stored name (`type_emb.`, `head.`, `scorer.`)."""

    def __init__(
        self,
        body: EncoderBody,
        config: MarkerConfig,
        tensors: Mapping[str, Tensor],
        product: Product,
    ) -> None:
        self.body = body
        self._layers = config.layers
        self._heads = config.num_heads(body.config.hidden_size)
        self._tensors = tensors
        self._product = product

    def logits(self, rows: Rows) -> Tensor:
        """FP32 [M]: one logit per marker, in row order."""
        x = self.body.hidden(rows.ids, rows.lengths)
        kinds = self._tensors["type_emb.weight"]
        x = torch.cat(
            [
                part + kinds[kind]
                for part, kind in zip(torch.split(x, list(rows.lengths)), rows.kinds, strict=True)
            ]
        )
        whole = blocks(rows.lengths, None, x.device)
        for layer in range(self._layers):
            x = self._layer(x, whole, f"head.layers.{layer}")
        # One row at a time: an FP32 product may depend on how many rows it has.
        parts = torch.split(x[rows.markers], list(rows.num_markers))
        return torch.cat([self._score(part) for part in parts])

    def _layer(self, x: Tensor, seen: Sequence[Block], name: str) -> Tensor:
        inner = self._norm(x, f"{name}.norm1")
        weight, bias = self._tensors[f"{name}.self_attn.in_proj_weight"], f"{name}.self_attn"
        qkv = self._biased(inner, weight, self._tensors[f"{bias}.in_proj_bias"])
        qkv = qkv.to(weight.dtype).view(x.shape[0], 3, self._heads, -1)
        mixed = attend(qkv[:, 0], qkv[:, 1], qkv[:, 2], seen)
        x = x + self._linear(mixed.reshape(x.shape), f"{name}.self_attn.out_proj")
        wide = functional.relu(self._linear(self._norm(x, f"{name}.norm2"), f"{name}.linear1"))
        return x + self._linear(wide, f"{name}.linear2")

    def _score(self, markers: Tensor) -> Tensor:
        """FP32 [k] of one row's markers [k, d]."""
        x = self._norm(markers, "scorer.0")
        x = functional.gelu(
            functional.linear(x, self._tensors["scorer.1.weight"], self._bias("scorer.1"))
        )
        return functional.linear(x, self._tensors["scorer.3.weight"], self._bias("scorer.3"))[:, 0]

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return self._biased(x, self._tensors[f"{name}.weight"], self._bias(name))

    def _biased(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """FP32: the product in the weight's dtype, the bias added wide."""
        return self._product(x.to(weight.dtype), weight).float() + bias

    def _bias(self, name: str) -> Tensor:
        return self._tensors[f"{name}.bias"]

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight = self._tensors[f"{name}.weight"]
        return functional.layer_norm(x, weight.shape, weight, self._bias(name), _EPS)
