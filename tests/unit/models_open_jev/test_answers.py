"""From scores to answers: the contract's golden numbers, and what a reply carries."""

import math
from dataclasses import replace

import numpy as np
import pytest

from systone.errors import EngineFaultError
from systone.models.base import Readout
from systone.models.open_jev import OpenJevAdapter, OpenJevCheckpoint
from systone.plan import Reuse, Sharing
from systone.protocol.types import Choice, Noul, Request, Score
from tests.unit.models_open_jev.vectors import VECTOR_A

BIG = OpenJevCheckpoint("Qwen/Qwen3.8-27B", "base-rev", "own-rev", "2026-01-31", 2.5343690298472983)
CACHE = Reuse("default").plus(47, crosses_questions=False).report()
GOLDEN = [0.21343437444688138, 0.3166841593736535, 0.4698814661794651]


def readout(scores: list[float]) -> Readout:
    values = np.array(scores, np.float32).reshape(-1, 1)
    return Readout(values, {"prefix_cache": CACHE, "inference_seconds": 0.25})


@pytest.fixture
def big(tokenizer) -> OpenJevAdapter:
    return OpenJevAdapter(BIG, tokenizer)


def decide(adapter, questions, scores, **request):
    prepared = adapter.prepare(Request("S", questions, **request))
    return adapter.finish(prepared, readout(scores))


def test_golden_numbers_hold_to_a_millionth_of_a_millionth(big):
    questions = {
        "c": Choice("Q", {"x": None, "y": None, "z": "last"}),
        "s": Score("Q", ("a", "b", "c")),
        "n": Noul("Q"),
    }
    answers = decide(big, questions, [-2, -1, 0, -2, -1, 0, 1]).answers
    assert list(answers) == ["c", "s", "n"]
    assert answers["c"].choice == "z"
    assert list(answers["c"].probabilities) == ["x", "y", "z"]
    assert list(answers["c"].probabilities.values()) == pytest.approx(GOLDEN, abs=1e-12, rel=0)
    assert answers["c"].confidence == pytest.approx(0.20482219926919762, abs=1e-12, rel=0)
    assert list(answers["s"].probabilities) == pytest.approx(GOLDEN, abs=1e-12, rel=0)
    assert answers["s"].score == pytest.approx(1.2564470917325836, abs=1e-12, rel=0)
    assert answers["s"].confidence == 0.0
    assert answers["n"].noul == pytest.approx(0.5973836777434065, abs=1e-12, rel=0)


def test_scores_are_taken_as_the_float32_values_they_are(big):
    score = float(np.float32(0.1))
    answers = decide(big, {"n": Noul("Q")}, [0.1]).answers
    wanted = 1 / (1 + math.exp(-score / BIG.temperature))
    assert answers["n"].noul == pytest.approx(wanted, abs=1e-15, rel=0)


def test_a_single_option_still_runs_and_is_certain(big):
    decision = decide(big, {"q": Choice("Q", {"only": None})}, [-7.0])
    assert decision.answers["q"].probabilities == {"only": 1.0}
    assert decision.answers["q"].confidence == 1.0
    assert decision.usage.input_tokens > 0


def test_a_single_level_scores_zero_with_certainty_and_a_note(big):
    decision = decide(big, {"q": Score("Q", ("only",))}, [3.0])
    answer = decision.answers["q"]
    assert (answer.score, answer.probabilities, answer.confidence) == (0.0, (1.0,), 1.0)
    assert decision.extras["notes"] == [
        "question q: one level only: the model was trained on two and more"
    ]


def test_ties_go_to_the_first_option(big):
    answer = decide(big, {"q": Choice("Q", {"b": None, "a": None})}, [1.0, 1.0]).answers["q"]
    assert answer.choice == "b"


def test_the_legend_keeps_levels_as_sent(big):
    levels = ({"b": 1, "a": 2}, ["x"], "plain")
    answer = decide(big, {"q": Score("Q", levels)}, [0, 0, 0]).answers["q"]
    assert tuple(answer.legend) == levels


def test_a_decision_carries_model_usage_and_the_native_metadata(big):
    prepared = big.prepare(replace(VECTOR_A, dialect="open-jev"))
    decision = big.finish(prepared, readout([0] * 7))
    assert decision.model == "Qwen/Qwen3.8-27B"
    assert (decision.usage.input_tokens, decision.usage.output_tokens) == (539, 0)
    assert decision.metadata == {
        "method": "native_merged_lora_decision_head",
        "temperature": 2.5343690298472983,
        "candidate_sequences": 7,
        "inference_seconds": 0.25,
        "base_revision": "base-rev",
        "max_length": 4096,
        "prefix_cache": {
            "policy": "default",
            "enabled": True,
            "scope": "within_question",
            "saved_tokens": 47,
        },
    }
    assert list(decision.metadata["prefix_cache"]) == [
        *("policy", "enabled", "scope", "saved_tokens")
    ]
    assert decision.extras["prefix_cache"] == CACHE
    assert "notes" not in decision.extras


def test_extras_carry_every_raw_score_by_question(big):
    questions = {"n": Noul("Q"), "c": Choice("Q", {"a": None, "b": None})}
    assert decide(big, questions, [0.5, 1.5, -1]).extras["scores"] == {
        "n": [0.5],
        "c": [1.5, -1.0],
    }


def test_weights_that_were_never_trained_are_not_called_calibrated(tokenizer, big):
    assert big.card.calibrated
    untrained = OpenJevAdapter(replace(BIG, calibrated=False), tokenizer)
    assert not untrained.card.calibrated


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_is_our_fault(big, bad):
    with pytest.raises(EngineFaultError) as caught:
        decide(big, {"q": Choice("Q", {"a": None, "b": None})}, [bad, 1.0])
    assert caught.value.code == "non_finite_output"


@pytest.mark.parametrize("scores", [[1.0], [1.0, 2.0, 3.0]])
def test_a_wrong_number_of_scores_is_never_answered(big, scores):
    with pytest.raises(EngineFaultError, match="2 rows gave scores of shape"):
        decide(big, {"q": Choice("Q", {"a": None, "b": None})}, scores)


@pytest.mark.parametrize("policy", ["off", "fixed", "default", "shared", "auto"])
def test_usage_does_not_depend_on_the_policy_but_the_cost_does(adapter_with, policy):
    prepared = adapter_with(sharing=Sharing(policy)).prepare(VECTOR_A)
    assert prepared.input_tokens == 539
    assert prepared.cost.rows == 7
    shares = policy not in ("off", "fixed")
    assert prepared.cost.tokens == (281 if shares else 539)
    assert prepared.cost.states == (3 if shares else 13)
