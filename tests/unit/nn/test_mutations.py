"""Each deliberate fault misses the parity bounds by a wide margin, in FP32 and in bf16: the parity
tests can see what they are there to see."""

from __future__ import annotations

import random

import pytest
import torch

from systone.plan.tables import PassTables
from tests.numerics import (
    BF16_RMS_RATIO,
    FP32_HIDDEN_REL_L2,
    MUTATION_FACTOR,
)
from tests.unit.nn.mutations import MUTATIONS
from tests.unit.nn.naive_tables import Path, naive_tables
from tests.unit.nn.tiny import flat, random_ids, relative_l2


def forked_requests() -> list[list[Path]]:
    """Two requests of a state, two questions each and four short options each."""
    rng = random.Random(21)
    requests = []
    for _ in range(2):
        state, *questions = (random_ids(rng, n) for n in (40, 24, 24))
        options = [3, 4, 5, 3]
        requests.append([[state, q, random_ids(rng, n)] for q in questions for n in options])
    return requests


def rms(errors: torch.Tensor) -> float:
    return errors.square().mean().sqrt().item()


@pytest.fixture(scope="module")
def tables() -> PassTables:
    return naive_tables(forked_requests())


@pytest.fixture(scope="module")
def rows() -> list[list[int]]:
    return [flat(path) for request in forked_requests() for path in request]


def test_the_unmutated_pass_holds_the_bounds(tiny, layout: str, tables, rows) -> None:
    exact, rough = tiny(layout), tiny(layout, torch.bfloat16)
    truth = exact.official_hidden(rows)
    assert relative_l2(exact.hidden(tables), truth).max() <= FP32_HIDDEN_REL_L2
    noise = rms(relative_l2(rough.official_hidden(rows), truth))
    assert rms(relative_l2(rough.hidden(tables), truth)) <= 1.2 * noise  # 16 rows scatter


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_fault_shows_in_fp32(tiny, layout: str, tables, rows, name: str) -> None:
    model = tiny(layout)
    errors = relative_l2(model.hidden(MUTATIONS[name](tables)), model.official_hidden(rows))
    assert rms(errors) >= MUTATION_FACTOR * FP32_HIDDEN_REL_L2


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_fault_shows_in_bf16(tiny, layout: str, tables, rows, name: str) -> None:
    exact, rough = tiny(layout), tiny(layout, torch.bfloat16)
    truth = exact.official_hidden(rows)
    noise = rms(relative_l2(rough.official_hidden(rows), truth))
    errors = relative_l2(rough.hidden(MUTATIONS[name](tables)), truth)
    assert rms(errors) / noise >= MUTATION_FACTOR * BF16_RMS_RATIO
