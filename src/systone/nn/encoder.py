"""A ModernBERT body over rows laid end to end: no padding, no row sees another.

Owns the arithmetic of the body; knows no files, no prompts and no read-out. The residual stream
and every norm are FP32; matrix products are in the weights' dtype, as torch's autocast has them.
Axes: T tokens of all rows, H heads, D head dim, d hidden. Formulas: transformers' ModernBERT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from systone.nn.encoder_config import EncoderConfig

__all__ = ["Block", "EncoderBody", "Product", "attend", "blocks"]

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
        whole = blocks(lengths, None, ids.device)
        near = blocks(lengths, config.reach, ids.device)
        for layer, is_global in enumerate(config.is_global):
            name = f"layers.{layer}"
            # The first layer's input is normalised already.
            inner = x if layer == 0 else self._norm(x, f"{name}.attn_norm")
            rope = ropes[config.global_theta if is_global else config.local_theta]
            x = x + self._attention(name, inner, rope, whole if is_global else near)
            x = x + self._mlp(name, self._norm(x, f"{name}.mlp_norm"))
        return self._norm(x, "final_norm")

    def _attention(self, name: str, x: Tensor, rope: Tensor, seen: Sequence[Block]) -> Tensor:
        config = self.config
        qkv = self._linear(x, f"{name}.attn.Wqkv").view(-1, 3, config.num_heads, config.head_dim)
        queries, keys = rotate(qkv[:, :2], rope).unbind(1)
        mixed = attend(queries, keys, qkv[:, 2], seen)
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


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Neighbouring queries of one row and the keys they may see; `mask` bool [queries, keys], or
    None when they see all of them."""

    queries: slice
    keys: slice
    mask: Tensor | None = None


def blocks(lengths: Sequence[int], reach: int | None, device: torch.device) -> list[Block]:
    """How rows laid end to end are attended: each row on its own, within `reach` tokens if given.

    Made once for all layers; rows of one length share their masks."""
    made: list[Block] = []
    masks: dict[tuple[int, int, int, int], Tensor] = {}
    start = 0
    for length in lengths:
        end = start + length
        if reach is None or length <= reach + 1:
            made.append(Block(slice(start, end), slice(start, end)))
        else:
            for at in range(0, length, _QUERY_BLOCK):
                stop = min(at + _QUERY_BLOCK, length)
                near = max(0, at - reach), min(length, stop + reach)
                window = (at, stop, *near)
                if window not in masks:
                    masks[window] = _mask(*window, reach, device)
                queries = slice(start + at, start + stop)
                made.append(Block(queries, slice(start + near[0], start + near[1]), masks[window]))
        start = end
    return made


def attend(queries: Tensor, keys: Tensor, values: Tensor, blocks: Sequence[Block]) -> Tensor:
    """[T, H, D]: softmax(q k / sqrt(D)) v, block by block, so nothing of a row depends on its
    neighbours."""
    mixed = torch.empty(queries.shape, dtype=queries.dtype, device=queries.device)
    for block in blocks:
        part = functional.scaled_dot_product_attention(
            queries[None, block.queries].transpose(1, 2),
            keys[None, block.keys].transpose(1, 2),
            values[None, block.keys].transpose(1, 2),
            attn_mask=block.mask,
        )
        mixed[block.queries] = part[0].transpose(0, 1)
    return mixed


def _mask(at: int, stop: int, first: int, last: int, reach: int, device: torch.device) -> Tensor:
    """bool [stop - at, last - first]: places of a row within reach of each other."""
    queries = torch.arange(at, stop, device=device)
    keys = torch.arange(first, last, device=device)
    return (queries[:, None] - keys[None, :]).abs() <= reach
