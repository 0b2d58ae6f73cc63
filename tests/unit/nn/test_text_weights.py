"""Fused projections hold the checkpoint's rows in the agreed order; bad tensors are named."""

from __future__ import annotations

import pytest
import torch

from systone.errors import ConfigError
from systone.nn.config import TextConfig
from systone.nn.decision import DecisionModel
from systone.nn.text_weights import AttentionWeights, DeltaWeights, fuse_text_weights
from tests.unit.nn.tiny import Checkpoint, tiny_json, tiny_tensors


@pytest.fixture
def config() -> TextConfig:
    return TextConfig.from_json(tiny_json("27b", layers=4))


@pytest.fixture
def tensors(config: TextConfig) -> dict[str, torch.Tensor]:
    return tiny_tensors(config, 3, torch.float32)


def test_row_order_of_fused_projections(config: TextConfig, tensors: dict) -> None:
    weights = fuse_text_weights(tensors, config, dtype=torch.float32)
    delta, attention = weights.layers[0].mixer, weights.layers[3].mixer
    assert isinstance(delta, DeltaWeights)
    assert isinstance(attention, AttentionWeights)
    at = "layers.0.linear_attn.in_proj_"
    parts = [tensors[f"{at}{name}.weight"] for name in ("qkv", "z", "b", "a")]
    assert torch.equal(delta.in_proj, torch.cat(parts))
    assert torch.equal(delta.conv, tensors["layers.0.linear_attn.conv1d.weight"][:, 0])
    parts = [tensors[f"layers.3.self_attn.{name}_proj.weight"] for name in "qkv"]
    assert torch.equal(attention.in_proj, torch.cat(parts))
    parts = [tensors[f"layers.0.mlp.{name}_proj.weight"] for name in ("gate", "up")]
    assert torch.equal(weights.layers[0].gate_up, torch.cat(parts))


def test_bf16_casts_every_tensor(config: TextConfig, tensors: dict) -> None:
    delta = fuse_text_weights(tensors, config, dtype=torch.bfloat16).layers[0].mixer
    assert isinstance(delta, DeltaWeights)
    assert {delta.A_log.dtype, delta.norm.dtype, delta.in_proj.dtype} == {torch.bfloat16}


def test_consume_empties_the_mapping_and_keeps_it_otherwise(config, tensors: dict) -> None:
    count = len(tensors)
    fuse_text_weights(tensors, config, dtype=torch.float32)
    assert len(tensors) == count
    fuse_text_weights(tensors, config, dtype=torch.float32, consume=True)
    assert not tensors


def test_a_missing_tensor_is_named(config: TextConfig, tensors: dict) -> None:
    del tensors["layers.2.mlp.up_proj.weight"]
    with pytest.raises(ConfigError, match=r"layers\.2\.mlp\.up_proj\.weight is missing"):
        fuse_text_weights(tensors, config, dtype=torch.float32)


def test_a_misshapen_tensor_is_named(config: TextConfig, tensors: dict) -> None:
    tensors["layers.3.self_attn.q_norm.weight"] = torch.zeros(3)
    with pytest.raises(ConfigError, match=r"q_norm\.weight has shape \(3,\), expected \(64,\)"):
        fuse_text_weights(tensors, config, dtype=torch.float32)


def test_an_unknown_layer_type_is_named(config: TextConfig) -> None:
    odd = TextConfig.from_json({**tiny_json("9b", layers=1), "layer_types": ["sliding"]})
    with pytest.raises(ConfigError, match=r"layer_types\[0\] is 'sliding'"):
        fuse_text_weights(tiny_tensors(odd, 3, torch.float32), odd, dtype=torch.float32)


def test_a_head_of_another_width_is_refused(config: TextConfig) -> None:
    good = Checkpoint.of(config, seed=1)
    bad = Checkpoint(config, good.tensors, torch.zeros(2, 64), good.head_bias)
    with pytest.raises(ConfigError, match="the head has shapes"):
        DecisionModel.build(bad, dtype=torch.float32)
