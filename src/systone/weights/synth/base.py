"""The tensors of a synthetic base: names, dtypes and shapes in official spelling, and their draw.

Owns which tensors a published checkpoint holds beside the text stack (vision, MTP, lm_head).
Knows no files.
"""

from __future__ import annotations

import torch

from systone.nn.config import TextConfig
from systone.weights.dtypes import TORCH
from systone.weights.shapes import attention_layer, text_tensors
from systone.weights.synth.noise import normal
from systone.weights.synth.recipe import draw
from systone.weights.synth.specs import Backbone, Vision
from systone.weights.writer import Planned

__all__ = ["TEXT_PREFIX", "base_tensor", "planned_base", "planned_text"]

TEXT_PREFIX = "model.language_model."


def planned_text(backbone: Backbone) -> list[Planned]:
    """The text stack's tensors under canonical names."""
    config = TextConfig.from_json(backbone.config())
    wide = "F32" if backbone.wide_gates else "BF16"
    return [
        Planned(name, wide if "F32" in expected.dtypes else "BF16", expected.shape)
        for name, expected in text_tensors(config).items()
    ]


def planned_base(backbone: Backbone) -> list[Planned]:
    """Everything the base directory stores, under stored names."""
    config = TextConfig.from_json(backbone.config())
    text = [Planned(TEXT_PREFIX + t.name, t.dtype, t.shape) for t in planned_text(backbone)]
    other = _vision(backbone.vision, backbone.hidden) | _mtp(config)
    if backbone.lm_head:
        other["lm_head.weight"] = (backbone.vocab, backbone.hidden)
    return text + [Planned(name, "BF16", shape) for name, shape in other.items()]


def base_tensor(
    planned: Planned, config: TextConfig, *, seed: int, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Draw one tensor of `planned_base` or `planned_text`."""
    if planned.name.startswith("model.visual."):
        std = 0.0 if planned.name.endswith("bias") else 0.02
        mean = 1.0 if "norm" in planned.name and planned.name.endswith("weight") else 0.0
        return normal(
            planned.shape,
            seed=seed,
            name=planned.name,
            std=std,
            mean=mean,
            dtype=TORCH[planned.dtype],
            device=device,
        )
    name = planned.name.removeprefix(TEXT_PREFIX)
    return draw(name, planned.shape, planned.dtype, config, seed=seed, device=device)


def _mtp(config: TextConfig) -> dict[str, tuple[int, ...]]:
    """The multi-token-prediction layer: one full-attention layer and its two input norms."""
    hidden = config.hidden_size
    table: dict[str, tuple[int, ...]] = {"mtp.fc.weight": (hidden, 2 * hidden)}
    for name, expected in attention_layer(config).items():
        table[f"mtp.layers.0.{name}"] = expected.shape
    for norm in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        table[f"mtp.{norm}.weight"] = (hidden,)
    return table


def _vision(vision: Vision, out: int) -> dict[str, tuple[int, ...]]:
    hidden, inner, merged = vision.hidden, vision.intermediate, 4 * vision.hidden
    table: dict[str, tuple[int, ...]] = {
        "patch_embed.proj.weight": (hidden, 3, 2, 16, 16),
        "patch_embed.proj.bias": (hidden,),
        "pos_embed.weight": (vision.positions, hidden),
    }
    linears: list[tuple[str, int, int]] = []
    for index in range(vision.depth):
        block = f"blocks.{index}"
        for norm in ("norm1", "norm2"):
            table[f"{block}.{norm}.weight"] = table[f"{block}.{norm}.bias"] = (hidden,)
        linears += [
            (f"{block}.attn.qkv", 3 * hidden, hidden),
            (f"{block}.attn.proj", hidden, hidden),
            (f"{block}.mlp.linear_fc1", inner, hidden),
            (f"{block}.mlp.linear_fc2", hidden, inner),
        ]
    table["merger.norm.weight"] = table["merger.norm.bias"] = (hidden,)
    linears += [("merger.linear_fc1", merged, merged), ("merger.linear_fc2", out, merged)]
    for name, rows, columns in linears:
        table[f"{name}.weight"] = (rows, columns)
        table[f"{name}.bias"] = (rows,)
    return {f"model.visual.{name}": shape for name, shape in table.items()}
