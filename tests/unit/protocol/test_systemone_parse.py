"""Section 1.1: the top level, the order of faults, unknown and foreign fields."""

from __future__ import annotations

from typing import Any

import pytest

from systone.errors import RequestError
from systone.protocol import systemone
from systone.protocol.faults import MAX_FAULTS, sentence_of
from systone.protocol.rules import WireLimits

QUESTIONS = {"q": {"type": "noul", "instructions": "?"}}
GOOD = {"state": "s", "questions": QUESTIONS}


@pytest.mark.parametrize("extra", [{}, {"model": None}])
def test_the_model_may_be_absent(parse: Any, extra: Any) -> None:
    assert parse({**GOOD, **extra}).model is None


@pytest.mark.parametrize("name", ["jev-latest", "", "no-such-model-7"])
def test_a_model_name_is_passed_on_as_sent(parse: Any, name: str) -> None:
    assert parse({**GOOD, "model": name}).model == name


def test_the_dialect_travels_with_the_request(parse: Any) -> None:
    assert parse(GOOD, dialect="open-jev").dialect == "open-jev"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, [(("state",), "missing"), (("questions",), "missing")]),
        ({"questions": QUESTIONS}, [(("state",), "missing")]),
        ({"state": "s"}, [(("questions",), "missing")]),
        ({"state": "s", "questions": {}}, [(("questions",), "too_short")]),
        ({"state": "s", "questions": None}, [(("questions",), "dict_type")]),
        ({"state": "s", "questions": []}, [(("questions",), "dict_type")]),
        ({**GOOD, "model": 3}, [(("model",), "string_type")]),
        ([], [((), "dict_type")]),
        ("text", [((), "dict_type")]),
        (None, [((), "dict_type")]),
    ],
)
def test_top_level_faults(faults: Any, body: Any, expected: Any) -> None:
    assert [(f.loc, f.type) for f in faults(body)] == expected


def test_faults_are_listed_in_the_order_of_the_body(faults: Any) -> None:
    bad = {"q": {"type": "x"}, "p": {"type": "y"}}
    found = faults({"questions": bad, "model": 3, "state": 1})
    assert [f.loc[0] for f in found] == ["questions"] * 2 + ["model"] + ["state"] * 3
    assert [f.loc[1] for f in found[:2]] == ["q", "p"]
    assert [f.loc[0] for f in faults({"model": 3, "questions": bad})] == [
        "model",
        "questions",
        "questions",
        "state",
    ]


def test_unknown_fields_are_ignored_by_default(parse: Any) -> None:
    request = parse({**GOOD, "x_trace_id": "t", "seed": 3, "stats": {}, "metadata": None})
    assert request == parse(GOOD)


@pytest.mark.parametrize("options", [{"strict": True}, {"dialect": "jev-exact"}])
def test_unknown_fields_are_refused_when_asked_for(faults: Any, options: Any) -> None:
    (fault,) = faults({**GOOD, "stat": 1}, **options)
    assert (fault.loc, fault.type) == (("stat",), "extra_forbidden")
    assert fault.exact == "api_usage_error"
    assert "did you mean `state`?" in fault.msg


@pytest.mark.parametrize("field", ["images", "files", "audio", "videos"])
def test_foreign_media_fields_are_refused_never_dropped(
    parse: Any, faults: Any, field: str
) -> None:
    (fault,) = faults({**GOOD, field: ["data:image/png;base64,AAAA"]})
    assert fault.loc == (field,)
    assert field in fault.msg
    for empty in (None, []):
        assert parse({**GOOD, field: empty}).questions


def test_a_body_with_endless_faults_is_not_read_to_its_end(faults: Any) -> None:
    body = {"state": "s", "questions": {f"q{i}": 0 for i in range(5 * MAX_FAULTS)}}
    found = faults(body)
    assert len(found) == MAX_FAULTS + 1
    assert found[-1].type == "too_many_faults"


def test_endless_unknown_fields_are_not_matched_one_by_one(faults: Any) -> None:
    found = faults({**GOOD, **{f"x{i}": 0 for i in range(3 * MAX_FAULTS)}}, strict=True)
    assert len(found) == MAX_FAULTS + 1
    (fault,) = faults({**GOOD, "state" * 100: 1}, strict=True)
    assert "did you mean" not in fault.msg


def test_a_repeated_question_id_is_refused() -> None:
    data = b'{"state":"x","questions":{"q":{"type":"noul"},"q":{"type":"noul"}}}'
    with pytest.raises(RequestError) as caught:
        systemone.parse(data, dialect="default")
    assert '"q"' in str(caught.value)


def test_what_a_fault_echoes_is_bounded(faults: Any) -> None:
    huge = {"a": "x" * 10_000, "b": list(range(10_000))}
    (fault,) = faults({"state": "s", "questions": {"q": {"type": "x" * 10_000, "huge": huge}}})
    assert len(repr(fault)) < 2_000
    (fault,) = faults({**GOOD, "model": list(range(1000))})
    assert fault.input == "<array of 1000 values>"
    found = faults({**GOOD, "state": 10**4000})
    assert found[0].input == "<integer of many digits>"


def test_the_sentence_of_all_faults_names_each_slot_once(faults: Any) -> None:
    found = faults(
        {"state": 1, "questions": {"h": {"type": "score", "criteria": ["a", None]}, "b": {}}}
    )
    assert sentence_of(found) == (
        "state: Input should be a string, an object or an array; "
        "questions.h.score.criteria[1]: Input should be a string, an object or an array; "
        "questions.b: Unable to extract tag using discriminator 'type'; "
        "expected one of 'noul', 'choice', 'score'"
    )


def test_limits_cover_the_widest_model() -> None:
    narrow, wide = WireLimits(2, 2), WireLimits(26, 255)
    assert WireLimits.covering([]) == WireLimits() == WireLimits.covering([narrow])
    assert WireLimits.covering([narrow, wide]) == WireLimits(255, 255)
