"""Long passes in groups of layers: what is enqueued when, in whose buffers. Launches are recorded;
the bits are checked under Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from systone.errors import EngineFaultError
from systone.execute import gpu_pass
from systone.execute.gpu_arena import SURVIVING, Arena, Room, arena_bytes, beside_bytes
from systone.execute.gpu_gemm import Products
from systone.execute.gpu_pace import one_row
from systone.execute.gpu_pass import GpuPass
from systone.execute.gpu_runner import _all_angles
from systone.execute.graph_long import Grouped, Long
from systone.execute.graph_passes import GraphedPasses, GraphSettings
from systone.execute.graph_stage import PassStage, StageRoom
from systone.execute.graph_store import CaptureError
from systone.execute.selfcheck_long import beyond, long_passes, mixed_launch
from systone.execute.selfcheck_rows import sample_pass
from systone.kernels.work import WorkTables
from systone.nn.decision import DecisionModel
from tests.unit.kernels_triton.test_pass import model_of

CPU = torch.device("cpu")
TABLES = StageRoom(1024, 512, 2048, 128, 32)


@dataclass
class Recorder:
    """A split pass that notes what it is launched on."""

    name: str
    calls: list[tuple]
    config: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(num_layers=8))
    arena: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            room=Room(tokens=1024, readouts=128, states=64), scores=torch.zeros(128, 1)
        )
    )

    def trunk(self, tables: WorkTables) -> None:
        self.calls.append((self.name, "trunk", tables.num_tokens))

    def layers(self, tables: WorkTables, first: int, end: int) -> None:
        self.calls.append((self.name, first, end))

    def tail(self, tables: WorkTables) -> None:
        self.calls.append((self.name, "tail"))


class Again:
    num_bytes = 1

    def __init__(self, launch: Callable[[], object]) -> None:
        launch()
        self.replay = launch
        self.released = False

    def release(self) -> None:
        self.released = True


def made(capture: Callable | None = None) -> tuple[GraphedPasses, list[tuple]]:
    """Passes of more than 256 tokens are long; 0.1 s a group, 0.2 s of work in 512 tokens."""
    calls: list[tuple] = []
    long = Long(Recorder("long", calls), PassStage(TABLES, CPU), 256, 0.2 / 512, 0.1)
    settings = GraphSettings(tokens=512, small_depths=(2,))
    passes = GraphedPasses(
        Recorder("short", calls), PassStage(TABLES, CPU), settings, capture,
        partial(sample_pass, 100), long,
    )  # fmt: skip
    passes.capture()
    calls.clear()
    return passes, calls


def test_a_group_holds_the_layers_that_fit_its_time() -> None:
    passes, _ = made()
    assert passes.long.groups(512) == [(0, 4), (4, 8)]
    assert passes.long.groups(1024) == [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert passes.long.groups(300) == [(0, 6), (6, 8)]
    assert passes.long.groups(10**6) == [(i, i + 1) for i in range(8)]


def test_a_short_pass_runs_between_the_groups_of_a_long_one() -> None:
    passes, calls = made()
    scores = mixed_launch(passes, one_row(500, 100))
    assert scores.shape == (64, 1)
    short = [("short", "trunk", 64), ("short", "tail")]
    assert calls == [("long", 0, 4), *short, ("long", 4, 8), ("long", "tail")]
    assert passes.describe()["passes"] == {"in groups, eager": 1, "eager": 1}


def test_the_tail_follows_the_last_group_at_once() -> None:
    passes, calls = made()
    parts = passes.parts(one_row(500, 100))
    assert next(parts) is None
    assert next(parts) is not None
    assert calls[-2:] == [("long", 4, 8), ("long", "tail")]


def test_a_second_long_pass_is_refused_until_the_first_is_enqueued_whole() -> None:
    passes, _ = made()
    first = passes.parts(one_row(500, 100))
    next(first)
    with pytest.raises(EngineFaultError, match="inside another"):
        passes.launch(one_row(300, 100))
    next(first)
    passes.launch(one_row(300, 100))


def test_a_long_pass_given_up_half_way_leaves_room_for_the_next() -> None:
    passes, _ = made()
    first = passes.parts(one_row(500, 100))
    next(first)
    first.close()
    passes.launch(one_row(300, 100))


def test_a_long_bucket_is_captured_in_groups_and_replayed_group_by_group() -> None:
    passes, calls = made(Again)
    assert isinstance(passes.trunks._held[512, 2], Grouped)
    assert isinstance(passes.trunks._held[256, 2], Again)
    list(passes.parts(one_row(500, 100)))
    assert calls == [("long", 0, 4), ("long", 4, 8), ("long", "tail")]
    assert passes.describe()["passes"] == {"in groups, replayed": 1}


def test_groups_captured_before_one_failed_are_released() -> None:
    passes, _ = made()
    graphs: list[Again] = []

    def fails_second(launch: Callable[[], object]) -> Again:
        if graphs:
            raise CaptureError("planted")
        graphs.append(Again(launch))
        return graphs[0]

    staged = passes.long.stage.load(sample_pass(100, 2), passes._capacity((512, 2)), 8)
    with pytest.raises(CaptureError):
        Grouped.capture(passes.long, staged, fails_second)
    assert graphs[0].released


@pytest.mark.parametrize(("tokens", "found"), [(10, 64), (64, 64), (700.5, 640 + 0), (1e9, 1024)])
def test_the_longest_whole_pass_is_a_bucket(tokens: float, found: int) -> None:
    assert beyond(tokens, 1024) == found


def arena_of(model: DecisionModel, tokens: int) -> Arena:
    arena = Arena(model.stack.config, Room(tokens=tokens, readouts=64, states=8), CPU)
    for tensor in (*arena._flat.values(), arena.states, arena.scores):
        tensor.fill_(float("nan"))
    return arena


def test_arenas_beside_each_other_share_all_but_what_survives_a_layer() -> None:
    model = model_of("9b", ["linear_attention", "full_attention"])
    whole = arena_of(model, 128)
    beside = whole.beside(64)
    assert whole.num_bytes == arena_bytes(model.stack.config, whole.room, CPU)
    assert beside.num_bytes == beside_bytes(model.stack.config, 64)
    assert beside.room.tokens == 64
    for name in whole._flat:
        same = whole._flat[name].data_ptr() == beside._flat[name].data_ptr()
        assert same == (name not in SURVIVING), name


@pytest.mark.slow
@pytest.mark.usefixtures("small_tiles")
def test_groups_others_between_and_chunked_mlps_keep_the_bits(monkeypatch) -> None:
    model = model_of("9b", ["linear_attention", "full_attention"])
    config = model.stack.config
    split = GpuPass.of(model, arena_of(model, 128), Products(), _all_angles(config, 128, CPU))
    group = config.num_heads // config.num_kv_heads
    stage = PassStage(StageRoom(128, 32, 64, 64, 16 // group), CPU)
    sample = partial(sample_pass, 512)
    whole = GraphedPasses(split, stage, GraphSettings(), None, sample)
    monkeypatch.setattr("systone.execute.selfcheck_long.seconds_of", lambda *_: 128.0)

    wanted: list[np.ndarray] = []  # of the one pass that both checks below compare with

    def bits(passes: GraphedPasses, tables) -> np.ndarray:
        if not wanted:
            wanted.append(passes.launch(tables)[:1].clone().numpy())
        return wanted[0]

    def mixed(passes: GraphedPasses, tables) -> np.ndarray:
        monkeypatch.setattr(gpu_pass, "MLP_ROWS", 64)
        return mixed_launch(passes, tables)[:1].clone().numpy()

    apart, proven = long_passes(whole, bits, mixed, (64.0, 64.0))
    assert proven
    assert (apart.long.beyond, apart.long.groups(128)) == (64, [(0, 1), (1, 2)])
    # buffers that must survive, shared: the check sees it
    monkeypatch.setattr(Arena, "beside", lambda self, tokens: self)
    again, proven = long_passes(whole, bits, mixed, (64.0, 64.0))
    assert (again, proven) == (whole, False)
