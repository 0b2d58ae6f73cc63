"""Sections 5.1 and 5.4: OpenAI's form, System One's form on the same route, SGLang refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from systone.errors import Fault, RequestError
from systone.protocol import decisions, systemone
from systone.protocol.rules import WireLimits
from systone.protocol.types import Choice, Noul, Score

PREDICATE = {"type": "predicate", "instructions": "The goods arrived damaged."}


def parse(body: Any, **options: Any) -> Any:
    options.setdefault("dialect", "default")
    return decisions.parse(json.dumps(body).encode(), **options)


def faults(body: Any, **options: Any) -> tuple[Fault, ...]:
    with pytest.raises(RequestError) as caught:
        parse(body, **options)
    assert caught.value.status == 400
    return caught.value.faults


def asked(*questions: Any) -> dict[str, Any]:
    return {"model": "m", "input": "x", "questions": list(questions)}


def choice(*values: Any, **fields: Any) -> dict[str, Any]:
    choices = [{"value": v} for v in values]
    return {"type": "choice", "instructions": "Which?", "choices": choices, **fields}


def score(*labels: Any, **fields: Any) -> dict[str, Any]:
    levels = [{"label": label} for label in labels]
    return {"type": "score", "instructions": "How?", "levels": levels, **fields}


def test_the_contract_s_example_becomes_typed_questions() -> None:
    body = {
        "model": "our-model-1",
        "input": "Parcel came crushed.",
        "questions": [
            {"type": "predicate", "name": "damaged", "instructions": "Arrived damaged."},
            {
                "type": "choice",
                "instructions": "Urgent?",
                "choices": [{"value": True}, {"value": False, "description": "can wait"}],
            },
            {
                "type": "score",
                "name": "harm",
                "instructions": "How bad?",
                "levels": [{"label": "dent"}, {"label": "broken", "description": "unusable"}],
            },
        ],
    }
    request, call = parse(body)
    assert (request.model, request.state) == ("our-model-1", "Parcel came crushed.")
    assert list(request.questions.items()) == [
        ("0", Noul("Arrived damaged.")),
        ("1", Choice("Urgent?", {"true": None, "false": "can wait"})),
        ("2", Score("How bad?", ["dent", "broken: unusable"])),
    ]
    assert call.form == "openai"
    assert [a.name for a in call.asked] == ["damaged", None, "harm"]
    assert call.asked[1].options == {"true": True, "false": False}
    assert call.asked[2].labels == ("dent", "broken")


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([True, "true", False], ["true (boolean)", "true", "false"]),
        (["false", False], ["false", "false (boolean)"]),
        ([True, "true", "true (boolean)"], ["true (boolean)'", "true", "true (boolean)"]),
        (["True", True], ["True", "true"]),
        (["", " "], ["", " "]),
    ],
)
def test_values_distinct_by_type_get_names_of_their_own(values: Any, names: Any) -> None:
    request, call = parse(asked(choice(*values)))
    assert list(request.questions["0"].criteria) == names
    assert list(call.asked[0].options.values()) == values
    assert [type(v) for v in call.asked[0].options.values()] == [type(v) for v in values]


@pytest.mark.parametrize("values", [["a", "a"], [True, True], ["x", False, False]])
def test_equal_values_are_refused(values: Any) -> None:
    (fault,) = faults(asked(choice(*values)))
    assert fault.loc == ("questions", 0, "choices", len(values) - 1, "value")
    assert "twice" in fault.msg


def test_duplicate_and_null_names_are_kept_by_position() -> None:
    request, call = parse(
        asked({**PREDICATE, "name": "n"}, {**PREDICATE, "name": "n"}, {**PREDICATE, "name": None})
    )
    assert list(request.questions) == ["0", "1", "2"]
    assert [a.name for a in call.asked] == ["n", "n", None]


@pytest.mark.parametrize(("count", "ok"), [(0, False), (1, True), (400, True), (401, False)])
def test_1_to_400_questions(count: int, ok: bool) -> None:
    body = asked(*[PREDICATE] * count)
    if ok:
        assert len(parse(body)[0].questions) == count
    else:
        assert faults(body)[0].loc == ("questions",)


@pytest.mark.parametrize(
    ("count", "ok"), [(0, False), (1, False), (2, True), (255, True), (256, False)]
)
def test_2_to_255_choices(count: int, ok: bool) -> None:
    body = asked(choice(*[f"o{i}" for i in range(count)]))
    if ok:
        assert len(parse(body)[0].questions["0"].criteria) == count
    else:
        (fault,) = faults(body)
        assert fault.loc == ("questions", 0, "choices")
        assert fault.ctx["actual_length"] == count


@pytest.mark.parametrize(
    ("count", "ok"), [(0, False), (1, False), (2, True), (10, True), (11, False)]
)
def test_2_to_10_levels(count: int, ok: bool) -> None:
    body = asked(score(*["l"] * count))
    if ok:
        assert len(parse(body)[0].questions["0"].criteria) == count
    else:
        assert faults(body)[0].loc == ("questions", 0, "levels")


def test_a_wider_model_s_levels_pass_with_wider_limits() -> None:
    body = asked(score(*["l"] * 26))
    assert parse(body, limits=WireLimits(max_levels=255))[0].questions


def test_empty_descriptions_are_none() -> None:
    question = choice("a", "b")
    question["choices"][0]["description"] = ""
    question["choices"][1]["description"] = None
    assert parse(asked(question))[0].questions["0"].criteria == {"a": None, "b": None}


@pytest.mark.parametrize(
    ("body", "loc", "words"),
    [
        ({}, ("input",), "required"),
        ({"input": "x"}, ("questions",), "required"),
        ({"input": "x", "questions": {}}, ("questions",), "valid list"),
        ({"input": "x", "questions": None}, ("questions",), "valid list"),
        ({**asked(PREDICATE), "model": 3}, ("model",), "valid string"),
        ({**asked(PREDICATE), "state": "x"}, ("state",), "not both"),
        (asked(3), ("questions", 0), "valid dictionary"),
        (asked({}), ("questions", 0, "type"), "predicate, choice, score"),
        (asked({"type": "noul", "instructions": "?"}), ("questions", 0, "type"), "predicate"),
        (asked({"type": ["x"], "instructions": "?"}), ("questions", 0, "type"), "predicate"),
        (asked({"type": "predicate"}), ("questions", 0, "instructions"), "required"),
        (asked({**PREDICATE, "instructions": ""}), ("questions", 0, "instructions"), "empty"),
        (asked({**PREDICATE, "instructions": None}), ("questions", 0, "instructions"), "string"),
        (asked({**PREDICATE, "instructions": {}}), ("questions", 0, "instructions"), "string"),
        (asked({**PREDICATE, "instructions": []}), ("questions", 0, "instructions"), "one part"),
        (asked({**PREDICATE, "name": 3}), ("questions", 0, "name"), "valid string"),
        (
            asked({"type": "choice", "instructions": "?"}),
            ("questions", 0, "choices"),
            "required",
        ),
        (asked(choice("a", 3)), ("questions", 0, "choices", 1, "value"), "string or a boolean"),
        (asked(choice("a", None)), ("questions", 0, "choices", 1, "value"), "string or a boolean"),
        (asked(choice(choices={})), ("questions", 0, "choices"), "valid list"),
        (asked(choice(choices=[{"value": "a"}, 3])), ("questions", 0, "choices", 1), "dictionary"),
        (asked(score("a", 3)), ("questions", 0, "levels", 1, "label"), "valid string"),
        (asked(score(levels=[{"label": "a"}, {}])), ("questions", 0, "levels", 1, "label"), "req"),
        (asked(score(levels=["a", {"label": "b"}])), ("questions", 0, "levels", 0), "dictionary"),
        (
            asked(score(levels=[{"label": "a", "description": 3}, {"label": "b"}])),
            ("questions", 0, "levels", 0, "description"),
            "valid string",
        ),
    ],
)
def test_faults_of_openai_s_form(body: Any, loc: Any, words: str) -> None:
    found = faults(body)
    assert found[0].loc == loc
    assert words in found[0].msg


def test_all_faults_are_listed_in_body_order() -> None:
    body = {"questions": [choice("a"), 3, score("l", 4)], "model": 1, "input": 5}
    assert [f.loc for f in faults(body)] == [
        ("questions", 0, "choices"),
        ("questions", 1),
        ("questions", 2, "levels", 1, "label"),
        ("model",),
        ("input",),
    ]


def test_endless_faults_stop_early() -> None:
    questions = [choice(*range(255)) for _ in range(400)]
    assert len(faults(asked(*questions))) == 1001


def test_endless_items_and_parts_stop_early() -> None:
    assert len(faults({"input": [0] * 5000, "questions": [PREDICATE]})) == 1001
    item = {"role": "user", "content": [0] * 5000}
    assert len(faults({"input": [item], "questions": [PREDICATE]})) == 1001


def test_multipart_parts_are_refused_never_dropped() -> None:
    (fault,) = faults(asked(PREDICATE), parts={"asset-0": b"x"})
    assert "data: URLs" in fault.msg


def test_cache_fields_are_accepted_and_have_no_effect() -> None:
    body = {
        **asked(PREDICATE),
        "prompt_cache_key": "k",
        "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
        "safety_identifier": "u",
    }
    assert parse(body) == parse(asked(PREDICATE)) == parse(body, strict=True)


def test_unknown_fields_are_ignored_unless_strict() -> None:
    body = {**asked({**PREDICATE, "instruction": "x"}), "quetsions": 1}
    assert parse(body) == parse(asked(PREDICATE))
    inner, outer = faults(body, strict=True)
    assert inner.loc == ("questions", 0, "instruction")
    assert "did you mean `instructions`?" in inner.msg
    assert "did you mean `questions`?" in outer.msg


SYSTEM_ONE = {"state": "s", "questions": {"q": {"type": "noul", "instructions": "?"}}}


def test_a_body_with_state_is_read_as_system_one() -> None:
    data = json.dumps(SYSTEM_ONE).encode()
    request, call = decisions.parse(data, dialect="jev-exact")
    assert request == systemone.parse(data, dialect="jev-exact")
    assert (call.form, call.dialect) == ("systemone", "jev-exact")


def test_system_one_faults_keep_their_status_and_locs() -> None:
    with pytest.raises(RequestError) as caught:
        parse({"state": 1, "questions": {}})
    assert caught.value.status == 422
    assert caught.value.faults[0].loc == ("state", "str")


@pytest.mark.parametrize("field", ["input", "state"])
@pytest.mark.parametrize(
    "question",
    [
        {"id": "a", "type": "yes_no", "question": "?"},
        {"id": "a", "type": "choice", "question": "?", "options": [{"name": "x"}]},
        {"id": "a", "type": "yes_no"},
    ],
)
def test_sglang_s_form_is_refused_with_help(field: str, question: Any) -> None:
    (fault,) = faults({field: "x", "questions": [question]})
    assert "SGLang" in fault.msg
    assert "`input`" in fault.msg


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b'{"input": "x"}', "openai"),
        (b'{"input": "x", "state": "y"}', "openai"),
        (b'{"state": "x"}', "systemone"),
        (b'{"questions": {}}', "systemone"),
        (b'{"questions": []}', "openai"),
        (b'{"state": 1e999}', "systemone"),
        (b'{"state": NaN, "state": 1}', "systemone"),
        (b'{"state": "x"', "openai"),
        (b"[]", "openai"),
        (b"{}", "openai"),
        (b"\xff", "openai"),
        (b"[" * 100_000, "openai"),
    ],
)
def test_the_form_of_a_refused_body(data: bytes, form: str) -> None:
    assert decisions.form_of(data) == form


@pytest.mark.parametrize("body", [[], None, 3, "x"])
def test_a_body_that_is_no_object_is_refused(body: Any) -> None:
    assert faults(body)[0].type == "dict_type"


def test_strict_json_applies_here_too() -> None:
    with pytest.raises(RequestError) as caught:
        decisions.parse(b'{"input":"x","input":"y"}', dialect="default")
    assert caught.value.faults[0].type == "duplicate_key"
