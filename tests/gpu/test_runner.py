"""The GPU runner on a full-width model of four layers: right, and exact however rows are packed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from scripts.gpu_suite.models import decision, recipe, served
from systone.errors import EngineFaultError
from systone.execute.gpu_arena import Room
from systone.execute.gpu_runner import GpuLimits, GpuRunner
from systone.execute.torch_runner import TorchRunner
from systone.nn.decision import DecisionModel
from tests.gpu.cases import leaves, rows_of
from tests.gpu.eager import EagerPasses
from tests.unit.nn.naive_tables import naive_tables

LIMITS = GpuLimits(tokens=4096, readouts=512)


@pytest.fixture(scope="module")
def model() -> DecisionModel:
    return decision(served(recipe("open-jev-9b", layers=4)))


@pytest.fixture(scope="module")
def runner(model: DecisionModel) -> Iterator[GpuRunner]:
    made = GpuRunner(lambda _: model, "cuda", LIMITS)
    made.start()
    yield made
    made.close()


def requests() -> list:
    made = [
        leaves(200, 7, [3, 21, 64, 65]),
        rows_of([[1], [2], [63], [64], [65]], seed=3),
        rows_of([[130, 2, 1, 40], [130, 2, 1, 1], [130, 17]], seed=5),
    ]
    return [[[[t % 200_000 for t in s] for s in row] for row in rows] for rows in made]


def test_scores_are_those_of_plain_torch(model: DecisionModel, runner: GpuRunner) -> None:
    tables = naive_tables(requests())
    plain = TorchRunner.of(model)
    plain.start()
    found, wanted = runner.run(tables), plain.run(tables)
    assert np.isfinite(found).all()
    assert np.abs(found - wanted).max() < 0.05 * max(wanted.std(), 0.1)


def test_every_row_has_one_score_however_it_is_packed(runner: GpuRunner) -> None:
    made = requests()
    together = runner.run(naive_tables(made))
    apart = runner.run(naive_tables(made, shared=False))
    backwards = runner.run(naive_tables(made[::-1]))
    alone = np.concatenate([runner.run(naive_tables([[row]])) for rows in made for row in rows])
    counts = [len(rows) for rows in made]
    turned = np.concatenate(np.split(backwards, np.cumsum(counts[::-1])[:-1])[::-1])
    for other in (apart, turned, alone):
        assert np.array_equal(together, other)


def test_products_and_poison_change_no_bit(model: DecisionModel, runner: GpuRunner) -> None:
    tables = naive_tables(requests())
    room = Room(tokens=4096, readouts=64, states=64)
    canonical = EagerPasses(model, room, fast=False)
    canonical.poison()
    scores, hidden = canonical.run(tables)
    fast = EagerPasses(model, room, fast=True)
    assert np.array_equal(scores, fast.run(tables)[0])
    assert torch.equal(hidden, fast.run(tables)[1])
    assert np.array_equal(scores, runner.run(tables))


def test_an_eager_pass_allocates_nothing_but_its_copies(model: DecisionModel) -> None:
    passes = EagerPasses(model, Room(tokens=4096, readouts=64, states=64), fast=True)
    tables = naive_tables(requests())
    passes.run(tables)
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    passes.run(tables)
    # the hidden states that `run` hands out
    assert torch.cuda.memory_stats()["allocation.all.allocated"] - before <= 1


def test_a_pass_beyond_the_limits_is_refused(runner: GpuRunner) -> None:
    with pytest.raises(EngineFaultError, match="token_ids"):
        runner.run(naive_tables(rows_of_one(5000)))


def rows_of_one(length: int) -> list:
    return [[[list(range(length))]]]
