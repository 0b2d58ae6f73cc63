"""The whole GPU pass under Triton's interpreter: a tiny stack over tries, against plain torch."""

from __future__ import annotations

import pytest
import torch

from systone.execute.gpu_arena import Room, arena_bytes
from systone.nn.config import TextConfig
from systone.nn.decision import DecisionModel
from systone.nn.device_tables import DeviceTables
from tests.gpu.cases import leaves, relative, rows_of
from tests.gpu.eager import EagerPasses
from tests.unit.nn.naive_tables import naive_tables
from tests.unit.nn.tiny import Checkpoint, tiny_json

CPU = torch.device("cpu")


def json_of(layout: str, kinds: list[str]) -> dict:
    """Head widths of the real models, everything else tiny."""
    return tiny_json(layout, layers=len(kinds)) | {
        "layer_types": kinds, "head_dim": 256, "linear_num_key_heads": 1,
        "linear_num_value_heads": {"9b": 2, "27b": 3}[layout],
        "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "rope_parameters": tiny_json(layout)["rope_parameters"] | {"mrope_section": [11, 11, 10]},
    }  # fmt: skip


def model_of(layout: str, kinds: list[str]) -> DecisionModel:
    checkpoint = Checkpoint.of(TextConfig.from_json(json_of(layout, kinds)), seed=3)
    return DecisionModel.build(checkpoint, dtype=torch.bfloat16)


def modulo(requests: list) -> list:
    return [[[[t % 512 for t in s] for s in row] for row in rows] for rows in requests]


@pytest.mark.slow
@pytest.mark.usefixtures("small_tiles")
def test_rows_without_a_token_are_zero_in_every_layer() -> None:
    """Where both mixers are as wide, as in every model served: what the layer before left is what
    attention leaves alone."""
    kinds = ["linear_attention", "full_attention", "linear_attention"]
    one_head = json_of("9b", kinds) | {"num_attention_heads": 1, "num_key_value_heads": 1}
    checkpoint = Checkpoint.of(TextConfig.from_json(one_head), seed=3)
    model = DecisionModel.build(checkpoint, dtype=torch.bfloat16)
    config = model.stack.config
    assert config.value_width == config.num_heads * config.head_dim
    passes = EagerPasses(model, Room(tokens=64, readouts=64, states=8), fast=False)
    passes.run(naive_tables(modulo([leaves(20, 2, [9, 9])])))  # leaves rows behind
    tables = naive_tables(modulo([leaves(3, 1, [4])]))
    passes.run(tables)
    for name in ("residual", "normed", "delta"):
        kept = passes.arena.take(name, 64, model.stack.config.hidden_size)
        assert kept[: tables.num_tokens].ne(0).any(dim=1).all()
        assert not kept[tables.num_tokens :].any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "kinds"),
    [
        ("9b", ["linear_attention", "full_attention"]),
        ("27b", ["full_attention", "linear_attention"]),
    ],
)
@pytest.mark.usefixtures("small_tiles")
def test_a_pass_equals_plain_torch(layout: str, kinds: list[str]) -> None:
    model = model_of(layout, kinds)
    config = model.stack.config
    requests = modulo([leaves(3, 2, [5, 17]), rows_of([[66, 1, 3]], seed=2)])
    tables = naive_tables(requests)
    passes = EagerPasses(model, Room(tokens=128, readouts=64, states=8), fast=False)
    assert passes.arena.num_bytes == arena_bytes(config, passes.arena.room, CPU)
    passes.poison()
    scores, found = passes.run(tables)
    at = DeviceTables.of(tables)
    wide = DecisionModel.build(Checkpoint.of(config, seed=3), dtype=torch.float32)
    wanted, exact = model.stack.readouts(at).float(), wide.stack.readouts(at)
    assert relative(found.float(), exact) < 1.3 * relative(wanted, exact)
    head = model.stack.ops.scalar_head(found, model.head_weight, model.head_bias)
    assert torch.equal(torch.from_numpy(scores), head)
