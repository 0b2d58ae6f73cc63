"""A ModernBERT body over rows laid end to end: no padding, no row sees another.

Owns the arithmetic of the body; knows no files, no prompts and no read-out. The residual stream
and every norm are FP32; matrix products are in the weights' dtype, as torch's autocast has them.
Axes: T tokens of all rows, H heads, D head dim, d hidden. Formulas: transformers' ModernBERT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from systone.nn.encoder_config import EncoderConfig

__all__ = ["EncoderBody", "Product", "attend"]

_QUERY_BLOCK = 256  # queries of a local layer attended at a time: memory stays linear in a row


class Product(Protocol):
    """`x @ weight.T`: x [M, K], weight [N, K] of one dtype -> [M, N] in it."""

    def __call__(self, x: Tensor, weight: Tensor) -> Tensor: ...


class EncoderBody:
    """The body's tensors by their names below `encoder.`, on one device.

    Norms and the embedding's result are computed in FP32 whatever dtype the products have.
    """

    def __init__(
        self, config: EncoderConfig, tensors: Mapping[str, Tensor], product: Product, longest: int
    ) -> None:
        self.config = config
        self._tensors = tensors
        self._product = product
        self._embedding = tensors["embeddings.tok_embeddings.weight"]
        self._ropes = {
            theta: rope_table(theta, longest, config.head_dim, self._embedding.device)
            for theta in {config.global_theta, config.local_theta}
        }

    def hidden(self, ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """FP32 [T, d] after the final norm. ids int64 [T]: rows of these `lengths`, in order."""
        config = self.config
        positions = torch.cat([torch.arange(n, device=ids.device) for n in lengths])
        ropes = {theta: table[:, positions] for theta, table in self._ropes.items()}
        x = self._norm(functional.embedding(ids, self._embedding).float(), "embeddings.norm")
        for layer, is_global in enumerate(config.is_global):
            name = f"layers.{layer}"
            # The first layer's input is normalised already.
            inner = x if layer == 0 else self._norm(x, f"{name}.attn_norm")
            rope = ropes[config.global_theta if is_global else config.local_theta]
            reach = None if is_global else config.reach
            x = x + self._attention(name, inner, lengths, rope, reach)
            x = x + self._mlp(name, self._norm(x, f"{name}.mlp_norm"))
        return self._norm(x, "final_norm")

    def _attention(
        self, name: str, x: Tensor, lengths: Sequence[int], rope: Tensor, reach: int | None
    ) -> Tensor:
        config = self.config
        qkv = self._linear(x, f"{name}.attn.Wqkv").view(-1, 3, config.num_heads, config.head_dim)
        queries, keys = rotate(qkv[:, :2], rope).unbind(1)
        mixed = attend(queries, keys, qkv[:, 2], lengths, reach)
        return self._linear(mixed.view(-1, config.hidden_size), f"{name}.attn.Wo").float()

    def _mlp(self, name: str, x: Tensor) -> Tensor:
        value, gate = self._linear(x, f"{name}.mlp.Wi").chunk(2, dim=-1)
        return self._linear(functional.gelu(value) * gate, f"{name}.mlp.Wo").float()

    def _linear(self, x: Tensor, name: str) -> Tensor:
        weight = self._tensors[f"{name}.weight"]
        return self._product(x.to(weight.dtype), weight)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight = self._tensors[f"{name}.weight"]
        return functional.layer_norm(x, weight.shape, weight, None, self.config.norm_eps)


def rope_table(theta: float, length: int, head_dim: int, device: torch.device) -> Tensor:
    """FP32 [2, length, head_dim]: cosines and sines, each half repeated over both halves."""
    steps = torch.arange(0, head_dim, 2, dtype=torch.float32, device=device)
    rates = 1.0 / (theta ** (steps / head_dim))
    angles = torch.outer(torch.arange(length, dtype=torch.float32, device=device), rates)
    return torch.stack([angles.cos(), angles.sin()]).repeat(1, 1, 2)


def rotate(x: Tensor, rope: Tensor) -> Tensor:
    """x [T, 2, H, D] turned by its position, rope [2, T, D]; in FP32, rounded once to x's dtype."""
    cos, sin = rope[:, :, None, None]
    wide = x.float()
    first, second = wide.chunk(2, dim=-1)
    turned: Tensor = wide * cos + torch.cat([-second, first], dim=-1) * sin
    return turned.to(x.dtype)


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, lengths: Sequence[int], reach: int | None
) -> Tensor:
    """[T, H, D]: softmax(q k / sqrt(D)) v within each row, and within `reach` tokens if given.

    Each row is attended on its own, so nothing of it depends on its neighbours."""
    mixed = torch.empty(queries.shape, dtype=queries.dtype, device=queries.device)
    start = 0
    for length in lengths:
        end = start + length
        step = length if reach is None or length <= reach + 1 else _QUERY_BLOCK
        for at in range(start, end, step):
            stop = min(at + step, end)
            near = (start, end) if step == length else _near(at, stop, start, end, reach or 0)
            mask = None if step == length else _window(at, stop, near, reach or 0, queries.device)
            part = functional.scaled_dot_product_attention(
                queries[None, at:stop].transpose(1, 2),
                keys[None, slice(*near)].transpose(1, 2),
                values[None, slice(*near)].transpose(1, 2),
                attn_mask=mask,
            )
            mixed[at:stop] = part[0].transpose(0, 1)
        start = end
    return mixed


def _near(at: int, stop: int, start: int, end: int, reach: int) -> tuple[int, int]:
    """The keys that queries at..stop of the row start..end may see."""
    return max(start, at - reach), min(end, stop + reach)


def _window(at: int, stop: int, near: tuple[int, int], reach: int, device: torch.device) -> Tensor:
    """bool [queries, keys]: within reach."""
    queries = torch.arange(at, stop, device=device)
    keys = torch.arange(*near, device=device)
    return (queries[:, None] - keys[None, :]).abs() <= reach
