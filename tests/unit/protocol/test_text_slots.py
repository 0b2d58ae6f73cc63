"""Section 1.2: what each text slot accepts, slot by slot and value by value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

OK = object()
Builder = Callable[[Any], dict[str, Any]]


def question(**fields: Any) -> dict[str, Any]:
    return {"state": "s", "questions": {"q": fields}}


SLOTS: dict[str, tuple[Builder, tuple[str | int, ...], bool]] = {
    "state": (
        lambda v: {"state": v, "questions": {"q": {"type": "noul", "instructions": "?"}}},
        ("state",),
        False,
    ),
    "noul-instructions": (
        lambda v: question(type="noul", instructions=v, criteria={"true": "t"}),
        ("questions", "q", "noul", "instructions"),
        True,
    ),
    "choice-instructions": (
        lambda v: question(type="choice", instructions=v, criteria={"a": None}),
        ("questions", "q", "choice", "instructions"),
        True,
    ),
    "score-instructions": (
        lambda v: question(type="score", instructions=v, criteria=["a"]),
        ("questions", "q", "score", "instructions"),
        True,
    ),
    "noul-true": (
        lambda v: question(type="noul", instructions="?", criteria={"true": v}),
        ("questions", "q", "noul", "criteria", "true"),
        True,
    ),
    "noul-false": (
        lambda v: question(type="noul", instructions="?", criteria={"false": v}),
        ("questions", "q", "noul", "criteria", "false"),
        True,
    ),
    "option": (
        lambda v: question(type="choice", criteria={"a": v}),
        ("questions", "q", "choice", "criteria", "a"),
        True,
    ),
    "level": (
        lambda v: question(type="score", criteria=["zero", v]),
        ("questions", "q", "score", "criteria", 1),
        False,
    ),
}


@pytest.mark.parametrize("slot", SLOTS)
@pytest.mark.parametrize("value", ["text", "", " ", {}, {"k": None}, [], [1, True, None, 0.5]])
def test_strings_objects_and_arrays_are_accepted(parse: Any, slot: str, value: Any) -> None:
    build, _, _ = SLOTS[slot]
    assert parse(build(value)).questions.keys() == {"q"}


@pytest.mark.parametrize("slot", SLOTS)
@pytest.mark.parametrize("value", [0, 1, -1.5, True, False])
def test_numbers_and_booleans_are_refused(faults: Any, slot: str, value: Any) -> None:
    build, loc, _ = SLOTS[slot]
    found = faults(build(value))
    assert [(f.loc, f.type, f.input) for f in found] == [
        ((*loc, "str"), "string_type", value),
        ((*loc, "dict[str,any]"), "dict_type", value),
        ((*loc, "list[any]"), "list_type", value),
    ]


@pytest.mark.parametrize("slot", SLOTS)
def test_null_is_accepted_where_a_text_is_optional(parse: Any, faults: Any, slot: str) -> None:
    build, loc, nullable = SLOTS[slot]
    if nullable:
        assert parse(build(None)).questions.keys() == {"q"}
    else:
        assert {f.loc[:-1] for f in faults(build(None))} == {loc}


def test_values_and_key_order_inside_a_slot_are_kept(parse: Any) -> None:
    state = {"z": [1.0, 10**25, True, None], "a": {"b": "–", "a": [{}]}}
    criteria = {"zeta": {"y": 1, "x": 2}, "alpha": None, "é": ["q"]}
    body = {"state": state, "questions": {"q": {"type": "choice", "criteria": criteria}}}
    request = parse(body)
    assert repr(request.state) == repr(state)
    assert repr(request.questions["q"].criteria) == repr(criteria)
