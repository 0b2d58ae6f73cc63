"""Temperatures by kind and band, both confidences, notes, and faults of the device."""

import math

import numpy as np
import pytest

from systone.errors import EngineDownError, EngineFaultError
from systone.models.base import Readout
from systone.models.laya.answers import own_confidence
from systone.models.laya.config import band_of
from systone.protocol.types import Choice, Noul, Request, Score


def finish(model, request: Request, logits: list[float]):
    prepared = model.adapter.prepare(request)
    values = np.array(logits, np.float32).reshape(-1, 1)
    return model.adapter.finish(prepared, Readout(values))


def test_logits_are_read_at_the_temperature_of_kind_and_band(model) -> None:
    request = Request(
        "s",
        {
            "two": Choice("x", {"a": None, "b": None}),
            "three": Choice("x", {"a": None, "b": None, "c": None}),
            "noul": Noul("x"),
            "level": Score("x", ["a", "b"]),
        },
    )
    reply = finish(model, request, [0, 1, 0, 0, 1, 0, 1, 0, 1])
    e = math.exp
    assert reply.answers["two"].probabilities["b"] == pytest.approx(1 / (1 + e(-1 / 1.637)))
    assert reply.answers["three"].probabilities["c"] == pytest.approx(1 / (1 + 2 * e(-1 / 1.9)))
    assert reply.answers["noul"].noul == pytest.approx(1 / (1 + e(-1 / 1.7)))  # false first
    assert reply.answers["level"].score == pytest.approx(1 / (1 + e(-1 / 1.251)))
    assert "notes" not in reply.extras


def test_a_temperature_outside_the_bounds_is_held_and_noted(model) -> None:
    names = {f"o{i}": None for i in range(11)}
    reply = finish(model, Request("s", {"q": Choice("x", names)}), [1.0] + [0.0] * 10)
    assert reply.answers["q"].probabilities["o0"] == pytest.approx(1 / (1 + 10 * math.exp(-2)))
    (note,) = reply.extras["notes"]
    assert "0.1006; served as 0.5" in note


def test_bands_are_by_number_of_options() -> None:
    counts = (1, 2, 3, 5, 6, 10, 11, 255)
    bands = ["2", "2", "3-5", "3-5", "6-10", "6-10", "11+", "11+"]
    assert [band_of(n) for n in counts] == bands


def test_the_models_own_confidences_are_beside_the_answer(model) -> None:
    request = Request("s", {"c": Choice("x", {"a": None, "b": None}), "n": Noul("x")})
    own = finish(model, request, [0, 0, 0, 3]).extras["own_confidence"]
    assert own["c"] == {"confidence": pytest.approx(0, abs=1e-12), "answer_confidence": 0.5}
    assert own["n"]["confidence"] == own["n"]["answer_confidence"] > 0.5
    assert own_confidence(Choice("x", {"a": None}), [1.0])["confidence"] == 1.0
    assert own_confidence(Choice("x", {"a": None, "b": None}), [1.0, 0.0])["confidence"] == 1.0


def test_what_the_reference_refuses_is_answered_with_a_note(model) -> None:
    request = Request("s", {"q": Noul(criteria={"true": "wet", "maybe": "damp"})})
    assert finish(model, request, [0, 1]).extras["notes"] == [
        "question q: no instructions; read as empty text",
        "question q: criteria key 'maybe' is not read",
    ]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_logit_that_is_not_finite_fails_the_request(model, bad) -> None:
    with pytest.raises(EngineFaultError) as fault:
        finish(model, Request("s", {"q": Noul("x")}), [0.0, bad])
    assert fault.value.code == "non_finite_output"
    with pytest.raises(EngineFaultError, match="2 options gave logits of shape"):
        finish(model, Request("s", {"q": Noul("x")}), [0.0])


def test_a_failing_forward_fails_only_its_own_request(model, monkeypatch) -> None:
    good, bad = (model.adapter.prepare(Request(s, {"q": Noul("x")})) for s in ("s", "broken"))
    forward = model.executor._model.logits

    def failing(rows):
        if rows.ids.shape[0] == len(bad.work[0].ids):
            raise RuntimeError("injected")
        return forward(rows)

    monkeypatch.setattr(model.executor._model, "logits", failing)
    first, second, third = model.executor.execute([good, bad, good])
    assert isinstance(second, EngineFaultError)
    np.testing.assert_array_equal(first.values, third.values)


def test_an_executor_that_is_not_running_says_so(load) -> None:
    executor = load().executor
    with pytest.raises(EngineDownError):
        executor.execute([])
