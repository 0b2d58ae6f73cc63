"""OpenAI-form replies: positional, typed values, complete usage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from systone.errors import EngineFaultError
from systone.protocol import decisions, systemone
from systone.protocol.types import ChoiceAnswer, Decision, NoulAnswer, ScoreAnswer, Usage

BODY = {
    "input": "x",
    "questions": [
        {"type": "predicate", "name": "damaged", "instructions": "?"},
        {
            "type": "choice",
            "instructions": "?",
            "choices": [{"value": True}, {"value": "true"}, {"value": False}],
        },
        {
            "type": "score",
            "name": "harm",
            "instructions": "?",
            "levels": [{"label": "dent"}, {"label": "broken", "description": "unusable"}],
        },
    ],
}
_, CALL = decisions.parse(json.dumps(BODY).encode(), dialect="default")
DECISION = Decision(
    "our-model-1",
    {
        "0": NoulAnswer(0.9),
        "1": ChoiceAnswer(
            "true (boolean)", {"true (boolean)": 0.5, "true": 0.3, "false": 0.2}, 0.25
        ),
        "2": ScoreAnswer(0.75, ["dent", "broken: unusable"], [0.25, 0.75], 0.5),
    },
    Usage(120, 3),
    extras={"notes": []},
)


def test_answers_are_positional_and_values_keep_their_type() -> None:
    body = json.loads(decisions.render(DECISION, CALL, extras=False))
    assert body == {
        "model": "our-model-1",
        "answers": [
            {"type": "predicate", "name": "damaged", "probability": 0.9},
            {
                "type": "choice",
                "name": None,
                "choice": True,
                "probabilities": [
                    {"value": True, "probability": 0.5},
                    {"value": "true", "probability": 0.3},
                    {"value": False, "probability": 0.2},
                ],
                "confidence": 0.25,
            },
            {
                "type": "score",
                "name": "harm",
                "score": 0.75,
                "probabilities": [
                    {"value": 0, "label": "dent", "probability": 0.25},
                    {"value": 1, "label": "broken", "probability": 0.75},
                ],
                "confidence": 0.5,
            },
        ],
        "usage": {
            "input_tokens": 120,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 123,
        },
    }
    assert body["answers"][1]["choice"] is True


def test_extras_are_added_when_asked_for() -> None:
    body = json.loads(decisions.render(DECISION, CALL, extras=True))
    assert body["x_systone"] == {"notes": []}


def test_answers_follow_the_questions_whatever_order_a_decision_has() -> None:
    shuffled = Decision("m", dict(reversed(DECISION.answers.items())), Usage(1))
    body = json.loads(decisions.render(shuffled, CALL, extras=False))
    assert [a["type"] for a in body["answers"]] == ["predicate", "choice", "score"]


@pytest.mark.parametrize("drop", ["0", "2"])
def test_a_decision_that_misses_a_question_is_our_fault(drop: str) -> None:
    answers = {k: v for k, v in DECISION.answers.items() if k != drop}
    with pytest.raises(EngineFaultError):
        decisions.render(Decision("m", answers, Usage(1)), CALL, extras=False)
    more = {**DECISION.answers, "3": NoulAnswer(0.1)}
    with pytest.raises(EngineFaultError):
        decisions.render(Decision("m", more, Usage(1)), CALL, extras=False)


def test_a_number_that_is_not_finite_never_leaves() -> None:
    broken: dict[str, Any] = {**DECISION.answers, "0": NoulAnswer(float("nan"))}
    with pytest.raises(EngineFaultError) as caught:
        decisions.render(Decision("m", broken, Usage(1)), CALL, extras=False)
    assert caught.value.code == "non_finite_output"


@pytest.mark.parametrize("dialect", ["default", "open-jev"])
def test_system_one_s_form_is_answered_as_on_its_own_route(dialect: Any) -> None:
    data = b'{"state":"s","questions":{"q":{"type":"noul","instructions":"?"}}}'
    _, call = decisions.parse(data, dialect=dialect)
    decision = Decision("m", {"q": NoulAnswer(0.5)}, Usage(1), {"t": 1}, {"e": 2})
    assert decisions.render(decision, call, extras=True) == systemone.render(
        decision, dialect=dialect, extras=True
    )
