"""Trunk and tail under Triton's interpreter, launched again on tables staged since."""

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
from systone.execute.graph_stage import PassStage, StageRoom
from systone.execute.selfcheck_rows import sample_pass
from systone.plan import PassTables
from tests.gpu.cases import leaves, rows_of
from tests.unit.kernels_triton.test_pass import model_of, modulo
from tests.unit.nn.naive_tables import naive_tables

CPU = torch.device("cpu")
ROOM = Room(tokens=64, readouts=64, states=8)
SETTINGS = GraphSettings(tokens=64, small_depths=(2,))


class Again:
    """Stands for a graph: launches once more what was captured, on the same views."""

    num_bytes = 1

    def __init__(self, launch: Callable[[], object]) -> None:
        self.replay = launch

    def release(self) -> None:
        self.replay = None


def passes(capture: Callable | None) -> GraphedPasses:
    model = model_of("9b", ["linear_attention", "full_attention"])
    config = model.stack.config
    arena = Arena(config, ROOM, CPU)
    for tensor in (*arena._flat.values(), arena.states, arena.scores):
        tensor.fill_(float("nan"))
    split = GpuPass.of(model, arena, Products(), _all_angles(config, ROOM.tokens, CPU))
    group = config.num_heads // config.num_kv_heads
    stage = PassStage(StageRoom(64, 32, 64, 64, 16 // group), CPU)
    return GraphedPasses(split, stage, SETTINGS, capture, partial(sample_pass, 512))


def forked() -> PassTables:
    return naive_tables(modulo([leaves(21, 3, [5, 17, 1])]))


@pytest.mark.slow
@pytest.mark.usefixtures("small_tiles")
def test_launches_kept_for_a_bucket_read_the_pass_that_is_staged() -> None:
    made = passes(Again)
    made.capture()
    first = forked()
    second = naive_tables(modulo([rows_of([[40]], seed=1), rows_of([[3]], seed=2)]))
    earlier, found = (made.launch(tables)[:2].clone() for tables in (first, second))
    assert made.describe()["passes"] == {"replayed": 2}
    eager = GraphedPasses(made.split, made.stage, SETTINGS, None, partial(sample_pass, 512))
    assert torch.equal(found, eager.launch(second)[:2])
    assert not torch.equal(found, earlier)
