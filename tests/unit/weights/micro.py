"""Micro recipes and the ways tests bend checkpoints made from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from systone.weights.manifest import MANIFEST_NAME, Manifest, hash_files, list_files
from systone.weights.safetensors_file import SafetensorsFile
from systone.weights.synth.specs import Recipe, find

SEED = 7
TEXT = "model.language_model."
Tensors = dict[str, torch.Tensor]


def micro(name: str, *, layers: int = 4) -> Recipe:
    """The tiny recipe cut down further: a vocabulary of 384, 32 wide."""
    recipe = find(name, "tiny")
    backbone = replace(
        recipe.backbone, hidden=32, intermediate=48, layers=layers, vocab=384, lm_head=True
    )
    return replace(recipe, backbone=backbone)


def shard_of(base: Path, name: str) -> Path:
    """The file that holds a stored tensor."""
    index = json.loads((base / "model.safetensors.index.json").read_bytes())
    return base / index["weight_map"][name]


def edit(path: Path, change: Callable[[Tensors], None]) -> None:
    """Rewrite one safetensors file after `change` has bent its tensors."""
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def resign(directory: Path) -> None:
    """Make the manifest agree with the files again, as someone would who has bent both."""
    old = Manifest.read(directory)
    files = list_files(directory) - {MANIFEST_NAME}
    replace(old, files=hash_files(directory, files)).write(directory)


def as_single_file(base: Path, rename: Callable[[str], str | None]) -> None:
    """Turn a sharded base into one `model.safetensors`; `rename` gives new names or None."""
    tensors: Tensors = {}
    for path in sorted(base.glob("*.safetensors")):
        file = SafetensorsFile(path)
        for name in file.entries:
            if (new := rename(name)) is not None:
                tensors[new] = file.tensor(name).clone()
        path.unlink()
    (base / "model.safetensors.index.json").unlink()
    save_file(tensors, base / "model.safetensors")
