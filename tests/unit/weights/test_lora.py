from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from systone.errors import ConfigError
from systone.nn.config import TextConfig
from systone.weights.families import by_name
from systone.weights.lora import Adapter, read_adapter
from tests.unit.weights.micro import Tensors, edit

NAME = "base_model.model.layers.0.linear_attn.in_proj_qkv.lora_A.weight"


def read(copy: Path) -> Adapter:
    config = TextConfig.from_json(json.loads((copy / "base" / "config.json").read_bytes()))
    family = by_name("open-jev-9b")
    return read_adapter(adapter(copy), family.adapted(config), family.rank, family.alpha)


def adapter(copy: Path) -> Path:
    return copy / "package" / "checkpoint" / "adapter"


def test_every_pair_is_read(micro_9b: Path) -> None:
    found = read(micro_9b)
    # three linear layers with two targets each, one attention layer with four
    assert len(found.pairs) == 3 * 2 + 4
    assert found.scale == 2.0
    assert not any("in_proj_z" in name or "mlp" in name for name in found.pairs)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda t: t.pop(NAME), "lora_A of 'layers.0.linear_attn.in_proj_qkv.weight' is missing"),
        (
            lambda t: t.update({NAME.replace("lora_A", "lora_C"): t[NAME].clone()}),
            "adapts no target",
        ),
        (lambda t: t.update({NAME.replace("qkv", "z"): t[NAME].clone()}), "adapts no target"),
        (lambda t: t.update({NAME.replace(".0.", ".9."): t[NAME].clone()}), "adapts no target"),
        (lambda t: t.update({NAME: t[NAME][:4].clone()}), "has shape [4, 32], not [8, 32]"),
        (lambda t: t.update({NAME: t[NAME].bfloat16()}), "has dtype BF16, not F32"),
        (lambda t: t[NAME].view(-1)[3:4].fill_(float("nan")), "not finite"),
        (
            lambda t: t.update({NAME.replace("base_model.model.", ""): t[NAME].clone()}),
            "under two names",
        ),
    ],
)
def test_a_bent_adapter_is_refused(
    copy_9b: Path, change: Callable[[Tensors], None], complaint: str
) -> None:
    path = adapter(copy_9b) / "adapter_model.safetensors"
    edit(path, change)
    with pytest.raises(ConfigError) as refused:
        read(copy_9b)
    assert str(refused.value).startswith(f"{path}: ")
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("r", 16),
        ("lora_alpha", 8),
        ("bias", "all"),
        ("peft_type", "LOHA"),
        ("use_dora", True),
        ("use_rslora", True),
        ("rank_pattern", {"q_proj": 4}),
        ("modules_to_save", ["norm"]),
        ("trainable_token_indices", [1]),
        ("target_modules", ["q_proj"]),
        ("target_modules", None),
    ],
)
def test_another_kind_of_adapter_is_refused(copy_9b: Path, field: str, value: object) -> None:
    path = adapter(copy_9b) / "adapter_config.json"
    config = json.loads(path.read_bytes())
    config[field] = value
    path.write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=str(path)):
        read(copy_9b)
