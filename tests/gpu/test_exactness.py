"""Issue equalities on a full-width model of four layers, and faults that must be seen."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from scripts.gpu_suite.exact import Bits, exact_rows, long_list
from scripts.gpu_suite.faults import fault_rows, hidden_rows
from scripts.gpu_suite.models import decision, recipe, served
from systone.execute.gpu_runner import GpuLimits, GpuRunner
from systone.execute.graph_passes import GraphSettings
from systone.execute.selfcheck_start import StartSettings
from systone.nn.decision import DecisionModel

LIMITS = GpuLimits(tokens=16384, states=512)
SMALL = GpuLimits(tokens=2304, readouts=64)


@pytest.fixture(scope="module")
def model() -> DecisionModel:
    return decision(served(recipe("open-jev-9b", layers=4)))


@pytest.fixture(scope="module")
def runners(model: DecisionModel) -> Iterator[tuple[GpuRunner, GpuRunner]]:
    made = tuple(
        GpuRunner(lambda _: model, "cuda", LIMITS, StartSettings(graphs))
        for graphs in (GraphSettings(), None)
    )
    for runner in made:
        runner.start()
    yield made
    for runner in made:
        runner.close()


def test_a_row_has_the_same_bits_however_it_is_run(runners) -> None:
    checks = list(exact_rows(*runners, long_list()))
    assert len(checks) >= 16
    assert [check["name"] for check in checks if check["equal"] is not True] == []
    assert checks[0]["rows"] >= 200


def test_planted_faults_are_seen(runners) -> None:
    rows = list(fault_rows(*runners, long_list()[9:20]))
    assert [row["name"] for row in rows if row.get("caught") is False] == []
    assert [row["name"] for row in rows if row.get("equal") is False] == []
    assert len([row for row in rows if "caught" in row]) == 3


@pytest.mark.parametrize("shapes", [None, {(4096, 12288)}])
def test_a_hidden_operator_falls_back_exactly_and_is_reported(model, runners, shapes) -> None:
    def start() -> GpuRunner:
        made = GpuRunner(lambda _: model, "cuda", SMALL, StartSettings(None, verdicts=None))
        made.start()
        assert made.proofs().m_invariant  # the canonical product is still proven
        return made

    requests = long_list()[9:12]
    (row,) = hidden_rows(start, requests, Bits(runners[1]).of(requests), shapes)
    assert row["caught"], row
    assert row["equal"], row


def test_two_models_on_one_device_keep_their_bits(model, runners) -> None:
    rows = long_list()[:4]
    graphed, _ = runners
    wanted = Bits(graphed).of(rows)
    other = GpuRunner(
        lambda _: decision(served(recipe("open-jev-9b", layers=4), seed=1)),
        "cuda", SMALL, StartSettings(GraphSettings(tokens=256)),
    )  # fmt: skip
    other.start()
    theirs = Bits(other).of(rows[:2])
    for _ in range(3):
        assert np.array_equal(Bits(graphed).of(rows), wanted)
        assert np.array_equal(Bits(other).of(rows[:2]), theirs)
    other.close()
