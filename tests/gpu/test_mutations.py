"""A planner's fault, planted in the tables of a right pass, misses the accuracy bound by a wide
margin on the device too: full-width models of four layers, oracle and noise from transformers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from scripts.gpu_suite.accuracy import final_hidden, official_model
from scripts.gpu_suite.models import decision, recipe, served
from systone.execute.gpu_arena import Room
from systone.plan.tables import PassTables
from tests.gpu.eager import EagerPasses
from tests.numerics import BF16_RMS_RATIO, MUTATION_FACTOR
from tests.unit.nn.mutations import MUTATIONS
from tests.unit.nn.naive_tables import naive_tables
from tests.unit.nn.rows import POSITION_PULL, flat, forked_requests, relative_l2, rms

LAYERS = 4


@dataclass(frozen=True)
class Case:
    """The forked pass on one layout: our kernels, the FP32 truth, transformers' bf16 noise."""

    tables: PassTables
    passes: EagerPasses
    truth: Tensor
    noise: float

    def error(self, tables: PassTables) -> float:
        """Our root mean square over transformers', both against the truth."""
        _, hidden = self.passes.run(tables)
        return rms(relative_l2(hidden.float(), self.truth)) / self.noise


@pytest.fixture(scope="module", params=["open-jev-9b", "open-jev-27b-v1.1"])
def case(request: pytest.FixtureRequest) -> Case:
    return forked_case(request.param, LAYERS)


def forked_case(name: str, layers: int, pull: float = POSITION_PULL) -> Case:
    """`pull` is added to the q and k norm weights of rotated dimensions: position leads attention,
    as in the tests on a CPU."""
    made = recipe(name, layers)
    weights = served(made)
    for key, tensor in weights.tensors.items():
        if key.endswith(("q_norm.weight", "k_norm.weight")):
            tensor[: weights.config.rotary_dim] += pull
    official = official_model(made, weights)
    requests = forked_requests()
    rows = [flat(path) for request in requests for path in request]
    truth = final_hidden(official, torch.float32, rows)
    noise = rms(relative_l2(final_hidden(official, torch.bfloat16, rows), truth))
    passes = EagerPasses(decision(weights), Room(tokens=2048, readouts=64, states=64), fast=True)
    return Case(naive_tables(requests), passes, truth, noise)


def test_the_right_pass_holds_the_bound(case: Case) -> None:
    assert case.error(case.tables) <= 1.2  # too few rows here for the bound on a bucket


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_fault_shows(case: Case, name: str) -> None:
    assert case.error(MUTATIONS[name](case.tables)) >= MUTATION_FACTOR * BF16_RMS_RATIO
