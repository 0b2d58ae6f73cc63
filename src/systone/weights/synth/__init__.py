"""Synthetic checkpoints in the official layouts, or directly as served weights on a device.

Owns the two entry points; tables, distributions and files live in the modules beside it. Every
value is a function of (name, size, seed) alone: not of device, thread count or library version.
"""

from __future__ import annotations

from pathlib import Path

import torch

from systone.nn.config import TextConfig
from systone.weights.merge import check_rule
from systone.weights.merged import Provenance, ServedWeights, gather, merge_record
from systone.weights.progress import Report, silent
from systone.weights.synth.base import base_tensor, planned_text
from systone.weights.synth.parts import draw_adapter, draw_head
from systone.weights.synth.specs import BACKBONES, Recipe, find
from systone.weights.synth.write import write_recipe

__all__ = ["BACKBONES", "SynthSource", "serve_recipe", "synthesize", "synthesize_served"]


class SynthSource:
    """The base tensors of a recipe, drawn on a device when they are asked for."""

    views = False

    def __init__(self, recipe: Recipe, seed: int, device: torch.device | str) -> None:
        self.config = TextConfig.from_json(recipe.backbone.config())
        self._planned = {tensor.name: tensor for tensor in planned_text(recipe.backbone)}
        self._seed, self._device = seed, device

    def tensor(self, name: str) -> torch.Tensor:
        """As a base of this recipe would store it."""
        return base_tensor(self._planned[name], self.config, seed=self._seed, device=self._device)


def synthesize(
    name: str, size: str, seed: int, out: Path | str, *, progress: Report | None = None
) -> Path:
    """Write `out/base` and `out/package` for a package name and size "tiny" or "full".

    One tensor is held at a time. Raises ConfigError for unknown names and for an `out` that
    isn't new or empty. `served.load_served(out)` reads it.
    """
    write_recipe(find(name, size), seed, Path(out), progress or silent)
    return Path(out)


def synthesize_served(
    name: str,
    size: str,
    seed: int,
    *,
    device: torch.device | str = "cpu",
    merge: str = "contract",
    tokenizer: Path | None = None,
    progress: Report | None = None,
) -> ServedWeights:
    """What `load_served` would give from the files of `synthesize`, bit for bit, without files.

    `tokenizer`: a directory to load it from, when one is needed.
    """
    return serve_recipe(find(name, size), seed, device, merge, tokenizer, progress or silent)


def serve_recipe(
    recipe: Recipe,
    seed: int,
    device: torch.device | str = "cpu",
    merge: str = "contract",
    tokenizer: Path | None = None,
    report: Report = silent,
) -> ServedWeights:
    """`synthesize_served` for a recipe that isn't in the table."""
    rule = recipe.family.merge if merge == "contract" else check_rule(merge)
    source = SynthSource(recipe, seed, device)
    adapter, head = draw_adapter(recipe, seed, device), draw_head(recipe, seed)
    tensors, weight, bias = gather(source, adapter, head, rule, device, report)
    family = recipe.family
    return ServedWeights(
        config=source.config,
        tensors=tensors,
        head_weight=weight,
        head_bias=bias,
        temperature=family.pins.temperature,
        max_length=family.max_length,
        model_id=family.base_id,
        base_revision=recipe.revision("base", seed),
        tokenizer=tokenizer,
        provenance=Provenance(
            package=family.name,
            checkpoint_revision=recipe.revision("checkpoint", seed),
            synthetic=True,
            verified="drawn in memory",
            merge=merge_record(rule, device),
            source=f"synthetic {family.name}, size {recipe.size}, seed {seed}",
        ),
    )
