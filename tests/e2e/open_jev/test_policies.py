"""Policies and budgets through the engine: equal answers, honest savings, unchanging usage."""

from __future__ import annotations

from typing import Any

import pytest

from systone.config import ModelSettings
from systone.engine import Engine
from systone.protocol.types import Choice, Decision, Noul, Request
from tests.numerics import GOLDEN_ANSWER_ABS

pytestmark = pytest.mark.slow

STATE = "The freight manifest lists forty crates of glass. " * 40
REQUEST = Request(
    STATE,
    {
        "q": Choice(
            "What is on board?", {"glass": "Glass in crates.", "coal": "Coal.", "fish": None}
        )
    },
)


@pytest.fixture(scope="module")
def decide(package) -> Any:
    def decide(request: Request = REQUEST, **settings: Any) -> Decision:
        with Engine([ModelSettings(source=str(package), **settings)]) as engine:
            return engine.submit(request).result()

    return decide


def cache_of(decision: Decision) -> dict[str, Any]:
    return dict(decision.metadata["prefix_cache"])


def test_policies_and_budgets_give_equal_answers_and_usage(decide) -> None:
    base = decide()
    variants = [
        {"policy": "off"},
        {"policy": "auto"},
        {"policy": "shared"},
        {"pack": False},
        {"max_batch_rows": 1},
        {"max_batch_tokens": 64},
    ]
    for settings in variants:
        other = decide(**settings)
        assert other.usage == base.usage, settings
        for name, p in base.answers["q"].probabilities.items():
            assert abs(other.answers["q"].probabilities[name] - p) <= GOLDEN_ANSWER_ABS, settings


def test_three_candidates_over_one_state_report_what_was_saved(decide) -> None:
    """(rows through a node - 1) x its length, summed over the shared nodes."""
    whole = cache_of(decide())
    off = cache_of(decide(policy="off"))
    two = cache_of(decide(max_batch_rows=2))  # a pass of two rows and one of a single row
    alone = cache_of(decide(max_batch_rows=1))
    assert (whole["enabled"], whole["scope"]) == (True, "within_question")
    assert whole["saved_tokens"] == 2 * two["saved_tokens"] > 0
    nothing = {"enabled": False, "scope": "none", "saved_tokens": 0}
    assert off == {"policy": "off", **nothing}
    assert alone == {"policy": "default", **nothing}


def test_sharing_across_questions_is_named(decide) -> None:
    request = Request(STATE, {"a": Noul("Is there glass?"), "b": Noul("Is there coal?")})
    assert cache_of(decide(request))["scope"] == "across_questions"
