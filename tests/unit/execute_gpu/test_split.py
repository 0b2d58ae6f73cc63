"""Trunk and tail under Triton's interpreter: the bits of a whole pass, staged for any bucket."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch

from systone.execute.buckets import Size
from systone.execute.gpu_arena import Arena, Room
from systone.execute.gpu_gemm import Products
from systone.execute.gpu_pass import GpuPass
from systone.execute.gpu_runner import _all_angles
from systone.execute.graph_passes import GraphedPasses, GraphSettings
from systone.execute.graph_split import SplitPass
from systone.execute.graph_stage import PassStage, StageRoom
from systone.execute.graph_store import CaptureError
from systone.execute.selfcheck_rows import sample_pass
from systone.kernels.work import WorkTables
from systone.plan import PassTables
from tests.gpu.cases import leaves, rows_of
from tests.unit.kernels_triton.test_pass import model_of, modulo
from tests.unit.nn.naive_tables import naive_tables

CPU = torch.device("cpu")
VOCABULARY = 512
ROOM = Room(tokens=256, readouts=16, states=8)
SETTINGS = GraphSettings(tokens=128, small_depths=(0, 2))


class Replay:
    """Stands for a graph: launches again what was captured, on the same views."""

    num_bytes = 1

    def __init__(self, launch: Callable[[], object]) -> None:
        launch()
        self.replay = launch

    def release(self) -> None:
        self.replay = None


def refused(launch: Callable[[], object]) -> Replay:
    raise CaptureError("planted")


def passes(kinds: list[str], capture: Callable | None, settings=SETTINGS) -> GraphedPasses:
    model = model_of("9b", kinds)
    config = model.stack.config
    arena = Arena(config, ROOM, CPU)
    for tensor in (*arena._flat.values(), arena.states, arena.scores):
        tensor.fill_(float("nan"))
    split = SplitPass.of(model, arena, Products(), _all_angles(config, ROOM.tokens, CPU))
    group = config.num_heads // config.num_kv_heads
    stage = PassStage(StageRoom(256, 32, 64, 16, 16 // group), CPU)
    return GraphedPasses(split, stage, settings, capture, partial(sample_pass, VOCABULARY))


def flat(*lengths: int) -> PassTables:
    return naive_tables(modulo([rows_of([[n]], seed=n) for n in lengths]))


def forked() -> PassTables:
    return naive_tables(modulo([leaves(21, 3, [5, 17, 1])]))


@pytest.mark.slow
@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("last", ["full_attention", "linear_attention"])
def test_trunk_and_tail_are_the_whole_pass(last: str) -> None:
    made = passes(["linear_attention", last], None)
    split = made.split
    tables = forked()
    found = made.launch(tables)[:3].clone()
    group = split.config.num_heads // split.config.num_kv_heads
    work = WorkTables.build(tables, 16 // group)
    whole = GpuPass.launch(split, work)[:3]
    assert torch.isfinite(found).all()
    assert torch.equal(found, whole)


@pytest.mark.slow
@pytest.mark.usefixtures("small_tiles")
def test_replays_give_the_bits_of_eager_launches_with_changed_and_returned_inputs() -> None:
    kinds = ["linear_attention", "full_attention"]
    eager, graphed = passes(kinds, None), passes(kinds, Replay)
    graphed.capture()
    assert graphed.trunks.counts["captured"] == 4
    assert graphed.tails.counts["captured"] == 2
    first, second = forked(), flat(40, 3)
    wanted = {id(t): eager.launch(t)[:3].clone() for t in (first, second)}
    for tables in (first, second, first, second):
        rows = Size.of(tables).readouts
        assert torch.equal(graphed.launch(tables)[:rows], wanted[id(tables)][:rows])
    assert graphed.describe()["passes"] == {"replayed": 4}


@pytest.mark.slow
@pytest.mark.usefixtures("small_tiles")
def test_what_no_graph_holds_runs_eagerly_and_is_counted() -> None:
    kinds = ["full_attention", "linear_attention"]
    graphed = passes(kinds, Replay)
    graphed.capture()
    for tables in (flat(140), naive_tables(modulo([rows_of([[9, 2, 2, 4, 5]], seed=5)]))):
        assert torch.isfinite(graphed.launch(tables)[:1]).all()
    assert graphed.describe()["passes"] == {"tokens over": 1, "depth over": 1, "eager": 2}


@pytest.mark.slow
@pytest.mark.usefixtures("small_tiles")
def test_a_refused_capture_leaves_eager_passes() -> None:
    kinds = ["linear_attention", "full_attention"]
    eager, broken = passes(kinds, None), passes(kinds, refused)
    broken.capture()
    assert (broken.trunks.counts["failed"], broken.tails.counts["failed"]) == (4, 2)
    assert torch.equal(broken.launch(forked())[:3], eager.launch(forked())[:3])
    assert broken.describe()["passes"]["eager"] == 1
