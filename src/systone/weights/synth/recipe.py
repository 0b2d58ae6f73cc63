"""How each synthetic weight is drawn, so that a random model has memory and stays sane.

Owns distributions only; knows no files. Linear weights keep variance; what enters the residual
stream is scaled by 1/sqrt(2 * layers), so activations neither die nor explode at any depth.
Per-token decay exp(-exp(A_log) * softplus(dt_bias)) spans 0.5..0.9995 over the heads of every
layer: with the usual initialisation it is near 0 and a fault in the recurrent state is invisible.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import torch

from systone.nn.config import TextConfig
from systone.weights.dtypes import TORCH
from systone.weights.synth.noise import normal, uniform

__all__ = ["SLOWEST_DECAY", "STEEPEST_DECAY", "Law", "draw", "law"]

STEEPEST_DECAY = 0.5
SLOWEST_DECAY = 0.9995
_RESIDUAL_GAIN = 2.0  # size of all layers' contributions beside the embedding's 1.0


@dataclass(frozen=True, slots=True)
class Law:
    """A normal distribution."""

    std: float
    mean: float = 0.0


# What the input of an output projection measures, so that its output comes out at size one:
# gated attention over several keys, a gated norm times SiLU, SiLU(gate) * up.
_INPUT_SIZE = {"o_proj": 0.25, "out_proj": 0.6, "down_proj": 0.6}

_FIXED = (
    (r"(^|\.)embed_tokens\.weight$", Law(1.0)),
    (r"\.conv1d\.weight$", Law(0.6)),
    (r"linear_attn\.norm\.weight$", Law(0.1, 1.0)),  # plain weight
    # (1 + weight): makes attention scores about 1.7 wide, so that attention is far from uniform.
    (r"\.(q_norm|k_norm)\.weight$", Law(0.1, 0.3)),
    (r"(layernorm|norm\w*)\.weight$", Law(0.1)),  # (1 + weight)
)


def law(name: str, shape: tuple[int, ...], layers: int) -> Law:
    """The distribution of a text, MTP or lm_head tensor, by its name and fan-in."""
    for pattern, fixed in _FIXED:
        if re.search(pattern, name):
            return fixed
    fan_in = shape[-1]
    projection = name.split(".")[-2]
    if projection in _INPUT_SIZE:
        gain = _RESIDUAL_GAIN / math.sqrt(2 * layers) / _INPUT_SIZE[projection]
        return Law(gain / math.sqrt(fan_in))
    if projection == "in_proj_a":  # the token's own say in its decay: up to a factor of about 3
        return Law(0.5 / math.sqrt(fan_in))
    return Law(1.0 / math.sqrt(fan_in))


def draw(
    name: str,
    shape: tuple[int, ...],
    dtype: str,
    config: TextConfig,
    *,
    seed: int,
    device: torch.device | str = "cpu",
) -> torch.Tensor:
    """The tensor `name` of a backbone; the same bits on every device and thread count."""
    kind = TORCH[dtype]
    if name.endswith((".A_log", ".dt_bias")):
        a_log, dt_bias = _decay(name.rsplit(".", 1)[0], shape[0], seed)
        values = a_log if name.endswith(".A_log") else dt_bias
        return torch.tensor(values, dtype=torch.float64).to(kind).to(device)
    chosen = law(name, shape, config.num_layers)
    return normal(
        shape, seed=seed, name=name, std=chosen.std, mean=chosen.mean, dtype=kind, device=device
    )


def _decay(layer: str, heads: int, seed: int) -> tuple[list[float], list[float]]:
    """A_log and dt_bias of a layer's heads: rates geometric between the two ends, shuffled."""
    steep, slow = -math.log(STEEPEST_DECAY), -math.log(SLOWEST_DECAY)
    ranks = uniform(heads, seed=seed, name=f"{layer}.order")
    order = sorted(range(heads), key=lambda head: (ranks[head], head))
    bias = [3 * u - 2 for u in uniform(heads, seed=seed, name=f"{layer}.dt_bias")]  # -2..1
    a_log = [0.0] * heads
    for place, head in enumerate(order):
        rate = steep * (slow / steep) ** (place / max(heads - 1, 1))
        a_log[head] = math.log(rate / math.log1p(math.exp(bias[head])))
    return a_log, bias
