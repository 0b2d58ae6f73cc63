"""What is recognised as sound without the shapes has no fault by them, and the usual is."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systone.protocol.rules import WireLimits, WireRules
from systone.protocol.shapes import body_shape, check, question_shape
from systone.protocol.sound import sound_body, sound_question
from systone.protocol.types import Dialect

RULES = [
    WireRules(dialect, limits, strict)
    for dialect in ("default", "jev-exact", "open-jev", "kev")
    for limits in (WireLimits(), WireLimits(max_options=2, max_levels=2, max_questions=2))
    for strict in (False, True)
]
VALUE: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.lists(st.text(max_size=2), max_size=3),
    st.dictionaries(st.text(max_size=2), st.none() | st.text(max_size=2), max_size=3),
)
QUESTION = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["noul", "choice", "score", "predicate"]) | VALUE,
        "instructions": st.text(max_size=3) | VALUE,
        "criteria": VALUE | st.lists(VALUE, max_size=3) | st.dictionaries(st.text(), VALUE),
        "more": VALUE,
    },
)
BODY = st.fixed_dictionaries(
    {},
    optional={
        "state": st.text(max_size=3) | VALUE,
        "questions": st.dictionaries(st.text(max_size=2), QUESTION, max_size=3) | VALUE,
        "model": VALUE,
        "assets": VALUE,
        "more": VALUE,
    },
)


@pytest.mark.parametrize("rules", RULES, ids=repr)
@settings(max_examples=100, deadline=None)
@given(body=BODY | VALUE, question=QUESTION | VALUE)
def test_what_is_recognised_has_no_fault(rules: WireRules, body: Any, question: Any) -> None:
    if sound_body(body, rules):
        assert check(body_shape(rules), body, (), rules) == []
    if sound_question(question, rules):
        assert check(question_shape(rules), question, ("questions", "q"), rules) == []


@pytest.mark.parametrize("dialect", ["default", "jev-exact", "open-jev", "kev"])
def test_the_usual_is_recognised(dialect: Dialect) -> None:
    rules = WireRules(dialect)
    questions = [
        {"type": "noul", "instructions": "Is it wet?"},
        {"type": "choice", "instructions": "Which?", "criteria": {"a": None, "b": "the other"}},
        {"type": "score", "instructions": "How?", "criteria": ["low", {"name": "high"}]},
    ]
    for question in questions:
        assert sound_question(question, rules)
    for state in ("text", {"an": "object"}, ["a", "list"]):
        assert sound_body({"state": state, "questions": {"q": questions[0]}}, rules)


@pytest.mark.parametrize(
    "question",
    [
        {"type": "choice", "criteria": {}},
        {"type": "choice", "criteria": {"a": 1}},
        {"type": "choice", "instructions": "?"},
        {"type": "score", "criteria": []},
        {"type": "score", "criteria": ["a", None]},
        {"type": "score", "criteria": {"a": "b"}},
        {"type": "noul", "instructions": 1},
        {"type": "noul", "criteria": {"true": 1}},
        {"type": "predicate"},
        {},
    ],
)
def test_what_has_a_fault_is_not_recognised(question: Any) -> None:
    rules = WireRules("default")
    assert check(question_shape(rules), question, ("questions", "q"), rules)
    assert not sound_question(question, rules)


def test_limits_are_kept() -> None:
    rules = WireRules("default", WireLimits(max_options=2, max_levels=2, max_questions=1))
    assert not sound_question({"type": "choice", "criteria": dict.fromkeys("abc")}, rules)
    assert not sound_question({"type": "score", "criteria": ["a", "b", "c"]}, rules)
    assert not sound_body({"state": "", "questions": {"a": {}, "b": {}}}, rules)
