"""The adapter and the head of a synthetic package, in memory.

Owns their distributions; knows no files. Adapters change a weight by about a tenth of its size,
heads give scores a few units wide, so that a wrong or missing merge moves answers visibly.
"""

from __future__ import annotations

import math

import torch

from systone.nn.config import TextConfig
from systone.weights.head_file import Head, PointerHead, ScalarHead
from systone.weights.lora import Adapter
from systone.weights.synth.noise import normal
from systone.weights.synth.recipe import law
from systone.weights.synth.specs import Recipe

__all__ = ["draw_adapter", "draw_head"]

_RELATIVE_CHANGE = 0.1  # of scale * B @ A beside W, by root mean square
_SCORE_SIZE = 3.0  # standard deviation of w . h for a final hidden state of size one


def draw_adapter(recipe: Recipe, seed: int, device: torch.device | str = "cpu") -> Adapter:
    """float32 pairs for every target of the family, the same bits on every device."""
    config = TextConfig.from_json(recipe.backbone.config())
    rank, scale = recipe.family.rank, recipe.family.alpha / recipe.family.rank
    pairs: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for name, expected in recipe.family.adapted(config).items():
        out, fan_in = expected.shape
        std_w = law(name, expected.shape, config.num_layers).std
        std_a = 1.0 / math.sqrt(fan_in)
        std_b = _RELATIVE_CHANGE * std_w / (scale * math.sqrt(rank) * std_a)
        pairs[name] = (
            _float32((rank, fan_in), seed, f"{name}.lora_A", std_a, device),
            _float32((out, rank), seed, f"{name}.lora_B", std_b, device),
        )
    return Adapter(rank, scale, pairs)


def draw_head(recipe: Recipe, seed: int) -> Head:
    """A scalar head's weight [1, hidden] and bias [1], or a pointer head's [2d, hidden] and [2d]
    whose logits, a product of two projections over sqrt(d), are as wide."""
    hidden, width = recipe.backbone.hidden, recipe.family.head_dim
    if recipe.family.layout == "kev":
        std = math.sqrt(_SCORE_SIZE / hidden)
        halves = [
            _float32((width, hidden), seed, f"head.{half}.weight", std) for half in ("q", "k")
        ]
        biases = [_float32((width,), seed, f"head.{half}.bias", 0.1) for half in ("q", "k")]
        return PointerHead(torch.cat(halves), torch.cat(biases))
    std = _SCORE_SIZE / math.sqrt(hidden)
    weight = _float32((1, hidden), seed, "head.weight", std)
    return ScalarHead(weight, _float32((1,), seed, "head.bias", 0.5))


def _float32(
    shape: tuple[int, ...], seed: int, name: str, std: float, device: torch.device | str = "cpu"
) -> torch.Tensor:
    return normal(shape, seed=seed, name=name, std=std, dtype=torch.float32, device=device)
