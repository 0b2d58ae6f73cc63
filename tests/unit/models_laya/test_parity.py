"""Logits against transformers' ModernBERT with torch's own encoder layers; alone and in batches."""

import numpy as np
import pytest

from oracles import laya as oracle
from oracles.laya_prompts import Rows
from tests.unit.models_laya.requests import RequestMaker, typed


@pytest.fixture(scope="module")
def requests() -> list:
    maker = RequestMaker(5)
    return [maker.request() for _ in range(6)]


def logits(model, requests: list) -> list[np.ndarray]:
    prepared = [model.adapter.prepare(typed(request)) for request in requests]
    return [readout.values[:, 0] for readout in model.executor.execute(prepared)]


def test_logits_agree_with_the_official_implementation(model, checkpoint, requests) -> None:
    official = oracle.load(checkpoint)
    rows = Rows(checkpoint, 320, 96)
    ours = logits(model, requests)
    longest = 0
    for request, mine in zip(requests, ours, strict=True):
        made = rows.of(request)
        longest = max(longest, *(len(row.ids) for row in made))
        alone = [x for row in made for x in official.logits([row])[0]]
        padded = [x for part in official.logits(made) for x in part]
        np.testing.assert_allclose(mine, alone, rtol=0, atol=1e-4)
        np.testing.assert_allclose(mine, padded, rtol=0, atol=1e-4)
        assert len(mine) < 2 or np.ptp(mine) > 0.05  # the options are told apart
    assert longest > 256  # beyond a block of local queries


def test_a_request_has_the_same_bits_alone_and_in_any_batch(model, requests) -> None:
    alone = [logits(model, [request])[0] for request in requests]
    backwards = logits(model, requests[::-1])[::-1]
    for one, other in zip(alone, backwards, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_cpu_runs_one_row_a_forward(model, requests) -> None:
    before = model.executor.describe()["forwards"]
    logits(model, requests)
    after = model.executor.describe()["forwards"]
    assert after - before == sum(len(request["questions"]) for request in requests)


def test_a_question_has_the_same_bits_in_any_company(model, requests) -> None:
    together = {"state": requests[0]["state"], "questions": {}}
    singles = []
    for i, request in enumerate(requests[:3]):
        for id, question in request["questions"].items():
            together["questions"][f"{i}{id}"] = question
            singles += [{"state": together["state"], "questions": {"x": question}}]
    parts = [logits(model, [single])[0] for single in singles]
    np.testing.assert_array_equal(logits(model, [together])[0], np.concatenate(parts))
