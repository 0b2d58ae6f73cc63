"""A synthetic package as files: OUT/base and OUT/package in the official layout of its family.

Owns the layout and the manifests; one tensor is held at a time. Knows no distributions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from systone.models.qwen_tokens import CLASS_PATTERN
from systone.nn.config import TextConfig
from systone.weights.directory import new_directory
from systone.weights.kev_export import kev_head_fields
from systone.weights.lora import Adapter
from systone.weights.manifest import Manifest, hash_files, list_files
from systone.weights.package import FILES
from systone.weights.progress import Report, silent
from systone.weights.synth.base import base_tensor, planned_base
from systone.weights.synth.parts import draw_adapter, draw_head
from systone.weights.synth.specs import Recipe
from systone.weights.synth.tokenizer_file import tokenizer_config, tokenizer_json
from systone.weights.writer import Planned, write_sharded, write_single

__all__ = ["write_recipe"]

# The hub's tokenizer_config.json of the 3.5 series names this class, whatever tokenizer.json says.
_TOKENIZER_CLASS = "Qwen2Tokenizer"
_SHARD_BYTES = {"tiny": 16 << 20, "full": 4 << 30}  # tiny still has several shards


def write_recipe(recipe: Recipe, seed: int, out: Path, report: Report = silent) -> None:
    """Write `out`, which must not exist or be empty; it appears only when it is whole."""
    with new_directory(out) as directory:
        (directory / "base").mkdir()
        _write_base(recipe, seed, directory / "base", report)
        package = directory / "package"
        if recipe.family.layout == "kev":
            package.mkdir()
            _write_kev(recipe, seed, package)
        else:
            (package / "checkpoint" / "adapter").mkdir(parents=True)
            _write_package(recipe, seed, package / "checkpoint")


def _write_base(recipe: Recipe, seed: int, directory: Path, report: Report) -> None:
    backbone = recipe.backbone
    config = TextConfig.from_json(backbone.config())
    planned = planned_base(backbone)
    by_name = {tensor.name: tensor for tensor in planned}
    hashes = write_sharded(
        directory,
        planned,
        lambda name: base_tensor(by_name[name], config, seed=seed),
        max_shard_bytes=_SHARD_BYTES[recipe.size],
        report=report,
        step=f"synthesising {recipe.family.name}",
    )
    _write_json(directory / "config.json", backbone.config())
    _write_json(
        directory / "generation_config.json",
        {"eos_token_id": [248_046, 248_044], "pad_token_id": 248_044},
    )
    (directory / "tokenizer.json").write_bytes(tokenizer_json())
    _write_json(directory / "tokenizer_config.json", tokenizer_config(_TOKENIZER_CLASS))
    rest = list_files(directory) - hashes.keys()
    Manifest(
        kind="base",
        model=recipe.family.name,
        model_id=recipe.family.base_id,
        base_revision=recipe.revision("base", seed),
        files=hashes | hash_files(directory, rest),
        tensors={tensor.name: (tensor.dtype, tensor.shape) for tensor in planned},
        synthetic=True,
        tokenizer={"class": _TOKENIZER_CLASS, "pattern": CLASS_PATTERN},
    ).write(directory)


def _write_package(recipe: Recipe, seed: int, checkpoint: Path) -> None:
    family = recipe.family
    head = draw_head(recipe, seed)
    torch.save({"weight": head.weight, "bias": head.bias}, checkpoint / "head.pt")
    base_revision = recipe.revision("base", seed)
    _write_json(
        checkpoint / "model.json",
        {
            "model_id": family.base_id,
            "revision": base_revision,
            "max_length": family.max_length,
            "lora_rank": family.rank,
            "method": family.method,
        },
    )
    temperature = family.pins.temperature
    _write_json(
        checkpoint / "temperature.json", {"temperature": temperature, "source": "synthetic"}
    )
    tensors = _write_adapter(recipe, draw_adapter(recipe, seed), checkpoint / "adapter")
    names = {f"checkpoint/{name}" for name in FILES}
    _write_manifest(recipe, seed, checkpoint.parent, names, tensors)


def _write_kev(recipe: Recipe, seed: int, root: Path) -> None:
    """One flat directory; `head.pt` carries what Open-Jev keeps in files of their own."""
    family, head = recipe.family, draw_head(recipe, seed)
    width = family.head_dim
    held = kev_head_fields(family, head, recipe.revision("base", seed), family.pins.temperature)
    torch.save(held, root / "head.pt")
    _write_json(root / "training_config.json", {"args": {"head_dim": width, "lora": family.rank}})
    _write_json(root / "provenance.json", {"source": "synthetic", "seed": seed})
    tensors = _write_adapter(recipe, draw_adapter(recipe, seed), root)
    _write_manifest(recipe, seed, root, list_files(root), tensors)


def _write_manifest(
    recipe: Recipe, seed: int, root: Path, names: set[str], tensors: list[Planned]
) -> None:
    family = recipe.family
    Manifest(
        kind="package",
        model=family.name,
        model_id=family.base_id,
        base_revision=recipe.revision("base", seed),
        checkpoint_revision=recipe.revision("checkpoint", seed),
        files=hash_files(root, names),
        tensors={tensor.name: (tensor.dtype, tensor.shape) for tensor in tensors},
        temperature=family.pins.temperature,
        max_length=family.max_length,
        synthetic=True,
    ).write(root)


def _write_adapter(recipe: Recipe, adapter: Adapter, directory: Path) -> list[Planned]:
    family = recipe.family
    _write_json(
        directory / "adapter_config.json",
        {
            "auto_mapping": None,
            "base_model_name_or_path": "",
            "bias": "none",
            "fan_in_fan_out": False,
            "inference_mode": True,
            "init_lora_weights": True,
            "lora_alpha": family.alpha,
            "lora_dropout": 0.0,
            "modules_to_save": None,
            "peft_type": "LORA",
            "r": family.rank,
            "target_modules": list(family.targets),
            "task_type": None,
            "use_dora": False,
            "use_rslora": False,
        },
    )
    tensors = {
        f"base_model.model.{target.removesuffix('weight')}lora_{half}.weight": value
        for target, pair in adapter.pairs.items()
        for half, value in zip("AB", pair, strict=True)
    }
    planned = [Planned(name, "F32", tuple(value.shape)) for name, value in tensors.items()]
    write_single(directory / "adapter_model.safetensors", planned, tensors.__getitem__)
    return planned


def _write_json(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")
