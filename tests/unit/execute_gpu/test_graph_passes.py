"""Which graph a pass takes, what is staged for it, and what is counted. Launches are recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from systone.errors import ConfigError, EngineFaultError
from systone.execute.gpu_arena import Room
from systone.execute.graph_passes import GraphedPasses, GraphSettings
from systone.execute.graph_stage import PassStage, StageRoom
from systone.execute.graph_store import CaptureError
from systone.execute.selfcheck_rows import pass_of, sample_pass
from systone.kernels.work import WorkTables
from systone.plan import PassTables, Row, Segment, TablesMemo, build_tables
from tests.unit.plan.test_memo import part_of

ROOM = Room(tokens=1024, readouts=128, states=64)


@dataclass
class Recorder:
    """A split pass that notes what it is launched on."""

    arena: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(room=ROOM, scores=torch.zeros(ROOM.readouts, 1))
    )
    calls: list[tuple[str, int, tuple[int, ...]]] = field(default_factory=list)

    def trunk(self, tables: WorkTables) -> None:
        first = tuple(tables.token_ids[:2].tolist())
        self.calls.append(("trunk", tables.num_tokens, first))

    def tail(self, tables: WorkTables) -> None:
        first = tuple(tables.readout_token[:2].tolist())
        self.calls.append(("tail", tables.num_readouts, first))


class Again:
    num_bytes = 1

    def __init__(self, launch: Callable[[], object]) -> None:
        launch()
        self.replay = launch

    def release(self) -> None:
        self.replay = None


def made(capture: Callable | None = Again, **settings) -> GraphedPasses:
    stage = PassStage(StageRoom(1024, 512, 2048, 128, 32), torch.device("cpu"))
    chosen = GraphSettings(**({"tokens": 256, "small_depths": (0, 2)} | settings))
    passes = GraphedPasses(Recorder(), stage, chosen, capture, partial(sample_pass, 100))
    passes.capture()
    passes.split.calls.clear()
    return passes


def rows(*lengths: int, stem: int = 0) -> PassTables:
    ids = np.arange(10_000, dtype=np.int32)
    shared = tuple(Segment.of(ids[10 * d : 10 * d + 3]) for d in range(stem))
    leaves = [Segment.of(ids[100 + i : 100 + i + n]) for i, n in enumerate(lengths)]
    return pass_of([[Row((*shared, leaf), 0) for leaf in leaves]], shared=True)


def test_trunks_are_captured_largest_first_after_the_tails() -> None:
    order: list[int] = []

    def note(launch: Callable[[], object]) -> Again:
        graph = Again(launch)
        order.append(passes_calls[-1][1])
        return graph

    stage = PassStage(StageRoom(1024, 512, 2048, 128, 32), torch.device("cpu"))
    recorder = Recorder()
    passes_calls = recorder.calls
    settings = GraphSettings(tokens=192, small_depths=(0, 2))
    GraphedPasses(recorder, stage, settings, note, partial(sample_pass, 100)).capture()
    assert order == [128, 64, 192, 192, 128, 128, 64, 64]


def test_a_pass_replays_its_bucket_on_its_own_tables() -> None:
    passes = made()
    passes.launch(rows(70))
    assert passes.split.calls == [("trunk", 128, (100, 101)), ("tail", 64, (69, 0))]
    passes.launch(rows(5, 9, stem=2))
    assert passes.split.calls[2] == ("trunk", 64, (0, 1))
    assert passes.describe()["passes"] == {"replayed": 2}


def test_kept_tables_go_the_way_of_equal_ones_and_count_alike() -> None:
    kept, plain = made(), made()
    memo = TablesMemo()
    for start, lengths in enumerate([[[9], [8, 3]], [[257]], [[9], [8, 3]], [[257]], [[70]]]):
        parts = part_of(lengths, 100 * start)
        for passes, tables in ((kept, memo.of(parts)), (plain, build_tables(parts))):
            passes.launch(tables)
    assert kept.split.calls == plain.split.calls
    assert kept.describe()["passes"] == plain.describe()["passes"]
    assert kept.describe()["passes"]["tokens over"] == 2
    assert len(kept._ways) == 3
    assert plain._ways == {}


def test_the_shallowest_graph_that_is_deep_enough_is_taken() -> None:
    passes = made()
    passes.launch(rows(9))
    passes.launch(rows(9, 8, stem=1))
    assert (64, 0) in passes.trunks
    assert list(passes.trunks._held)[-2:] == [(64, 0), (64, 2)]


@pytest.mark.parametrize(
    ("tables", "tokens", "counted"),
    [
        (rows(257), 320, "tokens over"),
        (rows(9, 8, stem=3), 64, "depth over"),
    ],
)
def test_what_no_graph_holds_runs_eagerly_at_a_padded_size(tables, tokens, counted) -> None:
    passes = made()
    passes.launch(tables)
    assert passes.split.calls[0][1] == tokens
    assert passes.describe()["passes"] == {counted: 1, "eager": 1}


def test_a_pass_with_many_segments_moves_to_a_larger_bucket() -> None:
    passes = made(tokens=512)
    passes.launch(rows(*[1] * 25))
    assert passes.split.calls[0][:2] == ("trunk", 448)
    assert passes.describe()["passes"] == {"segments over": 1, "replayed": 1}


def test_a_capture_that_fails_leaves_eager_passes() -> None:
    def refused(launch: Callable[[], object]) -> Again:
        raise CaptureError("planted")

    passes = made(refused)
    told = passes.describe()
    assert (told["trunks"]["failed"], told["tails"]["failed"]) == (8, 2)
    passes.launch(rows(70))
    assert passes.split.calls == [("trunk", 128, (100, 101)), ("tail", 64, (69, 0))]
    assert passes.describe()["passes"] == {"eager": 1}


def test_capturing_again_does_not_touch_the_pass_that_asked_for_it() -> None:
    passes = made(max_count=3)
    for _ in range(3):
        passes.split.calls.clear()
        passes.launch(rows(40))
    assert passes.trunks.counts["evicted"] == 1
    assert passes.split.calls[-2:] == [("trunk", 64, (100, 101)), ("tail", 64, (39, 0))]


def test_without_captures_everything_is_eager() -> None:
    passes = made(None)
    passes.launch(rows(70))
    assert passes.split.calls[0][:2] == ("trunk", 128)
    assert passes.describe()["passes"] == {"eager": 1}
    assert passes.describe()["largest_bucket"] == 0


def test_settings_that_hold_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="max_count"):
        GraphSettings(max_count=0)


def test_more_forked_states_than_there_is_room_for_are_refused() -> None:
    with pytest.raises(EngineFaultError, match="65 forked states; the device was set up for 64"):
        made(None).launch(rows(3, 4, stem=65))
