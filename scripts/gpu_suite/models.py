"""Synthetic models made on the device, at full width and any depth."""

from __future__ import annotations

from dataclasses import replace

import torch

from systone.nn.decision import DecisionModel
from systone.weights.merged import ServedWeights
from systone.weights.synth import serve_recipe
from systone.weights.synth.specs import Recipe, find

DEVICE = torch.device("cuda")


def recipe(name: str, layers: int | None = None, size: str = "full") -> Recipe:
    found = find(name, size)
    if layers is None:
        return found
    return replace(found, backbone=replace(found.backbone, layers=layers))


def served(made: Recipe, seed: int = 0) -> ServedWeights:
    return serve_recipe(made, seed, DEVICE)


def decision(weights: ServedWeights, *, consume: bool = False) -> DecisionModel:
    """`consume`: takes the weights over tensor by tensor, so that they are never held twice."""
    made = DecisionModel.build(weights, dtype=torch.bfloat16, device=DEVICE, consume=consume)
    if consume:
        torch.cuda.empty_cache()
    return made
