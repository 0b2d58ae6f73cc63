"""Trunk and tail under Triton's interpreter: the bits of a whole pass, eager and launched again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch

from systone.execute.gpu_arena import Arena, Room
from systone.execute.gpu_gemm import Products
from systone.execute.gpu_pass import GpuPass
from systone.execute.gpu_runner import _all_angles
from systone.execute.graph_passes import GraphedPasses, GraphSettings
from systone.execute.graph_split import SplitPass
from systone.execute.graph_stage import PassStage, StageRoom
from systone.execute.selfcheck_rows import sample_pass
from systone.kernels.work import WorkTables
from systone.plan import PassTables
from tests.gpu.cases import leaves, rows_of
from tests.unit.kernels_triton.test_pass import model_of, modulo
from tests.unit.nn.naive_tables import naive_tables

CPU = torch.device("cpu")
ROOM = Room(tokens=64, readouts=8, states=8)
SETTINGS = GraphSettings(tokens=64, small_depths=(2,))


class Again:
    """Stands for a graph: launches once more what was captured, on the same views."""

    num_bytes = 1

    def __init__(self, launch: Callable[[], object]) -> None:
        self.replay = launch

    def release(self) -> None:
        self.replay = None


def passes(last: str, capture: Callable | None) -> GraphedPasses:
    model = model_of("9b", ["linear_attention", last])
    config = model.stack.config
    arena = Arena(config, ROOM, CPU)
    for tensor in (*arena._flat.values(), arena.states, arena.scores):
        tensor.fill_(float("nan"))
    split = SplitPass.of(model, arena, Products(), _all_angles(config, ROOM.tokens, CPU))
    group = config.num_heads // config.num_kv_heads
    stage = PassStage(StageRoom(64, 32, 64, 8, 16 // group), CPU)
    return GraphedPasses(split, stage, SETTINGS, capture, partial(sample_pass, 512))


def forked() -> PassTables:
    return naive_tables(modulo([leaves(21, 3, [5, 17, 1])]))


@pytest.mark.slow
@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("last", ["full_attention", "linear_attention"])
def test_trunk_and_tail_are_the_whole_pass(last: str) -> None:
    made = passes(last, None)
    split, tables = made.split, forked()
    found = made.launch(tables)[:3].clone()
    group = split.config.num_heads // split.config.num_kv_heads
    whole = GpuPass.launch(split, WorkTables.build(tables, 16 // group))[:3]
    assert torch.isfinite(found).all()
    assert torch.equal(found, whole)


@pytest.mark.slow
@pytest.mark.usefixtures("small_tiles")
def test_launches_kept_for_a_bucket_read_the_pass_that_is_staged() -> None:
    made = passes("full_attention", Again)
    made.capture()
    first = forked()
    second = naive_tables(modulo([rows_of([[40]], seed=1), rows_of([[3]], seed=2)]))
    again = [made.launch(tables)[:2].clone() for tables in (first, second, first)]
    assert made.describe()["passes"] == {"replayed": 3}
    eager = GraphedPasses(made.split, made.stage, SETTINGS, None, partial(sample_pass, 512))
    assert torch.equal(again[1], eager.launch(second)[:2])
    assert torch.equal(again[0], eager.launch(first)[:2])
    assert torch.equal(again[2], again[0])
