"""Each deliberate fault misses the parity bounds by a wide margin, in FP32 and in bf16: the parity
tests can see what they are there to see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from systone.plan.tables import PassTables
from tests.numerics import (
    BF16_RMS_RATIO,
    FP32_HIDDEN_REL_L2,
    MUTATION_FACTOR,
)
from tests.unit.nn.mutations import MUTATIONS
from tests.unit.nn.naive_tables import naive_tables
from tests.unit.nn.rows import flat, forked_requests, relative_l2, rms


@dataclass(frozen=True)
class Case:
    """The forked pass on one layout: both models, the truth, and transformers' bf16 noise."""

    tables: PassTables
    exact: Any
    rough: Any
    truth: torch.Tensor
    noise: float


@pytest.fixture(scope="module")
def case(tiny, layout: str) -> Case:
    requests = forked_requests()
    rows = [flat(path) for request in requests for path in request]
    exact, rough = tiny(layout), tiny(layout, torch.bfloat16)
    truth = exact.official_hidden(rows)
    noise = rms(relative_l2(rough.official_hidden(rows), truth))
    return Case(naive_tables(requests), exact, rough, truth, noise)


def test_the_unmutated_pass_holds_the_bounds(case: Case) -> None:
    assert relative_l2(case.exact.hidden(case.tables), case.truth).max() <= FP32_HIDDEN_REL_L2
    errors = relative_l2(case.rough.hidden(case.tables), case.truth)
    assert rms(errors) <= 1.2 * case.noise  # too few rows here for the bound on a bucket


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_fault_shows_in_fp32(case: Case, name: str) -> None:
    errors = relative_l2(case.exact.hidden(MUTATIONS[name](case.tables)), case.truth)
    assert rms(errors) >= MUTATION_FACTOR * FP32_HIDDEN_REL_L2


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_fault_shows_in_bf16(case: Case, name: str) -> None:
    errors = relative_l2(case.rough.hidden(MUTATIONS[name](case.tables)), case.truth)
    assert rms(errors) / case.noise >= MUTATION_FACTOR * BF16_RMS_RATIO
