"""The whole GPU pass under Triton's interpreter: a tiny stack over tries, against plain torch."""

from __future__ import annotations

import pytest
import torch

from systone.execute.gpu_arena import Arena, Room, arena_bytes
from systone.execute.gpu_gemm import Products
from systone.execute.gpu_pass import GpuPass
from systone.execute.gpu_runner import _all_angles
from systone.execute.gpu_tables import TableShape, TableStage
from systone.nn.config import TextConfig
from systone.nn.decision import DecisionModel
from systone.nn.device_tables import DeviceTables
from tests.gpu.cases import leaves, relative, rows_of
from tests.unit.nn.naive_tables import naive_tables
from tests.unit.nn.tiny import Checkpoint, tiny_json

CPU = torch.device("cpu")


def model_of(layout: str, kinds: list[str]) -> DecisionModel:
    """Head widths of the real models, everything else tiny."""
    json = tiny_json(layout, layers=len(kinds)) | {
        "layer_types": kinds, "head_dim": 256, "linear_num_key_heads": 1,
        "linear_num_value_heads": {"9b": 2, "27b": 3}[layout],
        "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "rope_parameters": tiny_json(layout)["rope_parameters"] | {"mrope_section": [11, 11, 10]},
    }  # fmt: skip
    checkpoint = Checkpoint.of(TextConfig.from_json(json), seed=3)
    return DecisionModel.build(checkpoint, dtype=torch.bfloat16)


def modulo(requests: list) -> list:
    return [[[[t % 512 for t in s] for s in row] for row in rows] for rows in requests]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "kinds"),
    [
        ("9b", ["linear_attention", "full_attention", "full_attention"]),
        ("27b", ["full_attention", "linear_attention", "linear_attention"]),
    ],
)
@pytest.mark.usefixtures("small_tiles")
def test_a_pass_equals_plain_torch(layout: str, kinds: list[str]) -> None:
    model = model_of(layout, kinds)
    config = model.stack.config
    requests = modulo([leaves(21, 3, [5, 17, 1]), rows_of([[70, 2, 9], [70, 2, 40]], seed=2)])
    tables = naive_tables(requests)
    room = Room(tokens=256, readouts=8, states=8)
    arena = Arena(config, room, CPU)
    assert arena.num_bytes == arena_bytes(config, room, CPU)
    for tensor in (*arena._flat.values(), arena.states, arena.scores):
        tensor.fill_(float("nan"))
    group = config.num_heads // config.num_kv_heads
    stage = TableStage(TableShape(256, 32, 64, 8, 16 // group), CPU)
    made = GpuPass.of(model, arena, Products(), _all_angles(config, 256, CPU))
    found = made.launch(stage.load(tables, 192, 8))[: tables.readout_token.shape[0]]
    wanted = model.scores(DeviceTables.of(tables))
    wide = DecisionModel.build(Checkpoint.of(config, seed=3), dtype=torch.float32).scores(
        DeviceTables.of(tables)
    )
    assert torch.isfinite(found).all()
    assert relative(found, wide) < 1.3 * relative(wanted, wide) + 2e-3
