"""The official layout of synthetic packages, at real vocabulary where it matters."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from systone.errors import ConfigError
from systone.nn.config import TextConfig
from systone.weights.checkpoint import open_checkpoint
from systone.weights.manifest import Manifest
from systone.weights.shapes import text_tensors
from systone.weights.synth import SynthSource, synthesize
from systone.weights.synth.base import planned_base
from systone.weights.synth.parts import draw_adapter
from systone.weights.synth.specs import BACKBONES, Recipe, find
from systone.weights.synth.write import write_recipe
from tests.unit.weights.micro import SEED, micro


def text_size(recipe: Recipe) -> int:
    config = TextConfig.from_json(recipe.backbone.config())
    return sum(torch.Size(e.shape).numel() for e in text_tensors(config).values())


@pytest.mark.parametrize(
    ("name", "with_embedding", "embedding", "lora_modules", "lora_values"),
    [
        ("open-jev-9b", 7.94e9, 248_320 * 4096, 80, 5_898_240),
        ("open-jev-27b-v1.1", 25.62e9, 248_320 * 5120, 160, 15_466_496),
    ],
)
def test_full_sizes_are_the_official_ones(
    name: str, with_embedding: float, embedding: int, lora_modules: int, lora_values: int
) -> None:
    recipe = find(name, "full")
    assert abs(text_size(recipe) / with_embedding - 1) < 0.001
    config = TextConfig.from_json(recipe.backbone.config())
    assert config.vocab_size * config.hidden_size == embedding
    adapted = recipe.family.adapted(config).values()
    assert len(adapted) == lora_modules
    assert sum(8 * sum(expected.shape) for expected in adapted) == lora_values


@pytest.mark.parametrize("name", BACKBONES)
def test_tiny_keeps_the_full_models_ratios(name: str) -> None:
    full, tiny = (find(name, size).backbone for size in ("full", "tiny"))
    for model in (full, tiny):
        config = TextConfig.from_json(model.config())
        assert (config.head_dim, config.linear_key_dim, config.linear_value_dim) == (256, 128, 128)
        assert (config.vocab_size, config.conv_kernel, config.rotary_dim) == (248_320, 4, 64)
    assert tiny.heads / tiny.kv_heads == full.heads / full.kv_heads
    assert tiny.linear_value_heads / tiny.linear_key_heads == (
        full.linear_value_heads / full.linear_key_heads
    )
    assert tiny.layers >= 8
    assert tiny.kv_heads > 1
    assert tiny.linear_key_heads > 1


def test_27b_stores_everything_in_bf16(tmp_path: Path) -> None:
    assert {t.dtype for t in planned_base(find("open-jev-27b-v1.1", "full").backbone)} == {"BF16"}
    assert {t.dtype for t in planned_base(find("open-jev-9b", "full").backbone)} == {"BF16", "F32"}


def test_the_layout_is_the_official_one(micro_9b: Path) -> None:
    found = {p.relative_to(micro_9b).as_posix() for p in micro_9b.rglob("*") if p.is_file()}
    assert found == {
        "base/config.json",
        "base/generation_config.json",
        "base/model-00001-of-00001.safetensors",
        "base/model.safetensors.index.json",
        "base/systone_manifest.json",
        "base/tokenizer.json",
        "base/tokenizer_config.json",
        "package/checkpoint/adapter/adapter_config.json",
        "package/checkpoint/adapter/adapter_model.safetensors",
        "package/checkpoint/head.pt",
        "package/checkpoint/model.json",
        "package/checkpoint/temperature.json",
        "package/systone_manifest.json",
    }
    model = json.loads((micro_9b / "package/checkpoint/model.json").read_bytes())
    assert set(model) == {"model_id", "revision", "max_length", "lora_rank", "method"}


def test_a_seed_gives_the_same_files_whatever_the_threads(micro_9b: Path, tmp_path: Path) -> None:
    torch.set_num_threads(3)
    write_recipe(micro("open-jev-9b"), SEED, tmp_path / "again")
    for path in micro_9b.rglob("*"):
        if path.is_file():
            again = tmp_path / "again" / path.relative_to(micro_9b)
            assert path.read_bytes() == again.read_bytes(), path


def test_another_seed_is_another_model(micro_9b: Path, tmp_path: Path) -> None:
    write_recipe(micro("open-jev-9b"), SEED + 1, tmp_path / "other")
    ours, other = (Manifest.read(d / "base") for d in (micro_9b, tmp_path / "other"))
    assert ours.base_revision != other.base_revision
    names = ("layers.0.linear_attn.A_log", "layers.0.linear_attn.in_proj_qkv.weight")
    first, second = (open_checkpoint(d / "base") for d in (micro_9b, tmp_path / "other"))
    for name in names:
        assert not torch.equal(first.tensor(name), second.tensor(name))


def test_adapters_change_weights_by_about_a_tenth() -> None:
    recipe = find("open-jev-9b", "tiny")
    source = SynthSource(recipe, 1, "cpu")
    adapter = draw_adapter(recipe, 1)
    for name, (a, b) in adapter.pairs.items():
        change = (2.0 * b @ a).norm() / source.tensor(name).float().norm()
        assert 0.05 < change < 0.2, name


def test_a_filled_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(ConfigError, match="already there and not an empty directory"):
        write_recipe(micro("open-jev-9b"), SEED, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("name", "size", "complaint"),
    [("open-jev-1b", "tiny", "there are: open-jev-9b"), ("open-jev-9b", "huge", "neither")],
)
def test_unknown_names_and_sizes_are_refused(
    tmp_path: Path, name: str, size: str, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        synthesize(name, size, 1, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_families_and_backbones_name_the_same_packages() -> None:
    from systone.weights.families import FAMILIES

    assert BACKBONES.keys() == FAMILIES.keys()
    assert all(asdict(family.pins)["checkpoint_revision"] for family in FAMILIES.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", BACKBONES)
def test_transformers_loads_a_tiny_base_and_its_tokenizer(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    base = synthesize(name, "tiny", 1, tmp_path / "d") / "base"
    model, info = transformers.AutoModelForImageTextToText.from_pretrained(
        base, dtype=torch.float32, output_loading_info=True
    )
    tied = model.config.get_text_config().tie_word_embeddings
    assert set(info["missing_keys"]) == (set() if tied else {"lm_head.weight"})
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    checkpoint = open_checkpoint(base)
    state = model.model.language_model.state_dict()
    for stored in checkpoint.names:
        assert torch.equal(state[stored], checkpoint.tensor(stored).float())
    assert sum(p.stat().st_size for p in base.parent.rglob("*") if p.is_file()) < 100_000_000
