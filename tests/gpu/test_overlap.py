"""Passes in flight together and in parts: each keeps the scores it has alone; memory is planned."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from scripts.gpu_suite.models import decision, recipe, served
from systone.errors import ConfigError
from systone.execute import gpu_pass
from systone.execute.gpu_pace import one_row
from systone.execute.gpu_runner import GpuLimits, GpuRunner
from systone.execute.graph_passes import GraphSettings
from systone.execute.selfcheck_start import StartSettings
from systone.nn.decision import DecisionModel
from systone.plan import PassTables

LIMITS = GpuLimits(tokens=9000, readouts=64)
LENGTHS = (70, 300, 900, 2500, 3000, 8900)


@pytest.fixture(scope="module")
def model() -> DecisionModel:
    return decision(served(recipe("open-jev-9b", layers=4)))


def started(model: DecisionModel, **settings) -> GpuRunner:
    made = GpuRunner(lambda _: model, "cuda", LIMITS, StartSettings(**settings))
    made.start()
    return made


@pytest.fixture(scope="module")
def truth(model: DecisionModel) -> list[np.ndarray]:
    """Every pass whole, eager and one at a time."""
    runner = started(model, graphs=None, whole_s=None)
    scores = [runner.run(tables) for tables in passes()]
    runner.close()
    return scores


@pytest.fixture(scope="module")
def runner(model: DecisionModel) -> Iterator[GpuRunner]:
    """Long passes are those of more than about a thousand tokens, a layer or two at a time."""
    made = started(model, graphs=GraphSettings(tokens=3072), whole_s=0.003, group_s=0.001)
    yield made
    made.close()


def passes() -> list[PassTables]:
    return [one_row(length, 200_000) for length in LENGTHS]


def test_long_passes_are_proven_in_groups(runner: GpuRunner) -> None:
    check = runner.describe()["selfcheck"]
    assert (check["refused"], check["groups"]) == (0, "proven")
    assert runner.whole_tokens < 2500


def test_passes_in_flight_together_keep_their_scores(runner: GpuRunner, truth) -> None:
    launches = [runner.submit(tables) for tables in passes()]
    for launch, wanted in zip(launches, truth, strict=True):
        assert np.array_equal(launch.take(), wanted)


def test_another_thread_may_wait_while_the_next_pass_is_enqueued(runner: GpuRunner, truth) -> None:
    with ThreadPoolExecutor(1) as reader:
        taken = [reader.submit(runner.submit(tables).take) for tables in passes() * 3]
        for at, future in enumerate(taken):
            assert np.array_equal(future.result(), truth[at % len(truth)])


def test_short_passes_between_the_parts_of_a_long_one_keep_all_scores(runner, truth) -> None:
    made = passes()
    for long in (3, 4, 5):
        launch, parts = runner.begin(made[long]), 1
        while launch.enqueue():
            short = parts % 3
            assert np.array_equal(runner.run(made[short]), truth[short])
            parts += 1
        assert np.array_equal(launch.take(), truth[long])
        assert parts > 1
    counts = runner.describe()["launches"]["passes"]
    assert counts["in groups, replayed"] > 0
    assert counts["in groups, eager"] > 0


def test_mlps_over_fewer_rows_at_a_time_give_the_same_bits(model, truth, monkeypatch) -> None:
    runner = started(model, graphs=None, whole_s=None)
    for chunk in (256, 1024):
        monkeypatch.setattr(gpu_pass, "MLP_ROWS", chunk)
        for tables, wanted in zip(passes(), truth, strict=True):
            assert np.array_equal(runner.run(tables), wanted)
    runner.close()


def test_device_time_and_memory_are_reported(runner: GpuRunner) -> None:
    runner.run(passes()[0])
    said = runner.describe()
    assert said["device_time"]["busy_s"] > 0
    memory = said["memory"]
    assert memory["weights_bytes"] > 0
    # the weights were there before this runner: not among what it has used
    assert 0 < memory["used_bytes"] <= memory["peak_bytes"] < memory["total_bytes"]
    assert set(runner.pass_seconds) >= {64, 1024, 4096}
    assert said["compilations_since_ready"] == 0


def test_limits_beyond_the_device_are_refused_with_the_arithmetic(model: DecisionModel) -> None:
    runner = GpuRunner(lambda _: model, "cuda", GpuLimits(tokens=10_000_000))
    with pytest.raises(ConfigError, match=r"weights .* \+ arena .* GiB; .* free .* needed"):
        runner.start()
