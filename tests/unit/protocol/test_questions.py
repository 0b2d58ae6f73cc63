"""Section 1.3: question types, counts, the hosted API's sentences, unknown fields."""

from __future__ import annotations

from typing import Any

import pytest

from systone.errors import Fault
from systone.protocol.faults import MAX_FAULTS
from systone.protocol.questions import read_questions
from systone.protocol.rules import WireLimits, WireRules
from systone.protocol.types import Choice, Noul, Score


def options(count: int) -> dict[str, None]:
    return {f"o{i}": None for i in range(count)}


def test_the_contract_s_example_becomes_typed_questions(parse: Any) -> None:
    body = {
        "model": "jev-latest",
        "state": {"mail": "Parcel came crushed, send a new one.", "order": 77},
        "questions": {
            "replace": {"type": "noul", "instructions": "New?", "criteria": {"true": "new item"}},
            "desk": {"type": "choice", "criteria": {"logistics": {"owns": ["x"]}, "sales": None}},
            "heat": {"type": "score", "instructions": ["Rate."], "criteria": ["calm", {"n": 1}]},
        },
    }
    request = parse(body)
    assert request.model == "jev-latest"
    assert request.state == body["state"]
    assert list(request.questions.items()) == [
        ("replace", Noul("New?", {"true": "new item"})),
        ("desk", Choice(None, {"logistics": {"owns": ["x"]}, "sales": None})),
        ("heat", Score(["Rate."], ["calm", {"n": 1}])),
    ]


@pytest.mark.parametrize(
    "criteria",
    [None, {"true": "t"}, {"false": "f"}, {"true": None, "false": "f"}, {"false": "f", "true": []}],
)
def test_a_noul_may_describe_either_side(ask: Any, criteria: Any) -> None:
    question = ask({"type": "noul", "instructions": "Is it?", "criteria": criteria})
    assert question == Noul("Is it?", criteria)


def test_a_noul_needs_no_instructions_when_a_side_is_described(ask: Any) -> None:
    assert ask({"type": "noul", "criteria": {"true": "t"}}) == Noul(None, {"true": "t"})


@pytest.mark.parametrize("instructions", [{}, {"instructions": None}, {"instructions": ""}])
@pytest.mark.parametrize(
    "criteria",
    [{}, {"criteria": None}, {"criteria": {}}, {"criteria": {"true": "", "false": None}}],
)
def test_a_noul_with_nothing_to_read_is_refused(
    ask_faults: Any, instructions: Any, criteria: Any
) -> None:
    (fault,) = ask_faults({"type": "noul", **instructions, **criteria})
    assert fault.msg == "Noul question must have criteria or instructions: q"
    assert fault.loc == ("questions", "q", "noul")
    assert fault.exact == "sentence"


def test_stray_noul_criteria_beside_a_side_are_ignored(ask: Any) -> None:
    question = {"type": "noul", "criteria": {"maybe": 3, "true": "t", "unsure": None}}
    assert ask(question) == Noul(None, {"true": "t"})


def test_noul_criteria_under_other_names_only_are_refused_with_the_accepted_names(
    ask_faults: Any, ask: Any
) -> None:
    question = {"type": "noul", "instructions": "?", "criteria": {"yes": "y", "no": "n"}}
    (fault,) = ask_faults(question)
    assert fault.loc == ("questions", "q", "noul", "criteria")
    assert '"true"' in fault.msg
    assert '"false"' in fault.msg
    assert ask(question, dialect="jev-exact") == Noul("?", {})


def test_the_open_jev_dialect_hands_stray_noul_criteria_to_its_adapter(ask: Any) -> None:
    question = {"type": "noul", "instructions": "?", "criteria": {"yes": "y", "true": "t"}}
    assert ask(question, dialect="open-jev").criteria == question["criteria"]


@pytest.mark.parametrize("count", [1, 2, 26, 255])
def test_choice_option_counts_the_wire_accepts(ask: Any, count: int) -> None:
    assert len(ask({"type": "choice", "criteria": options(count)}).criteria) == count


@pytest.mark.parametrize("count", [1, 2, 10])
def test_score_level_counts_the_wire_accepts(ask: Any, count: int) -> None:
    assert len(ask({"type": "score", "criteria": ["l"] * count}).criteria) == count


@pytest.mark.parametrize(
    ("question", "sentence", "limit", "count"),
    [
        (
            {"type": "choice", "criteria": {}},
            "Choice question must have at least one choice: q",
            ("min_length", 1),
            0,
        ),
        (
            {"type": "choice", "criteria": options(256)},
            "Too many choices. Must have at most 255 choices.",
            ("max_length", 255),
            256,
        ),
        (
            {"type": "score", "criteria": ["l"] * 11},
            "Too many score levels. Must have at most 10 levels.",
            ("max_length", 10),
            11,
        ),
    ],
)
def test_counts_beyond_the_wire_carry_the_live_sentence(
    ask_faults: Any, question: Any, sentence: str, limit: tuple[str, int], count: int
) -> None:
    (fault,) = ask_faults(question)
    assert fault.msg == sentence
    assert fault.loc == ("questions", "q", question["type"], "criteria")
    assert fault.ctx[limit[0]] == limit[1]
    assert fault.ctx["actual_length"] == count
    assert fault.exact == "sentence"


@pytest.mark.parametrize(
    "question",
    [
        {"type": "choice", "criteria": dict.fromkeys(options(256), 0)},
        {"type": "score", "criteria": [0] * 11},
    ],
)
def test_entries_beyond_a_limit_are_not_looked_at(ask_faults: Any, question: Any) -> None:
    assert [fault.type for fault in ask_faults(question)] == ["too_long"]


def test_a_limit_for_one_shape_is_not_taken_for_another(ask_faults: Any) -> None:
    (levels,) = ask_faults({"type": "score", "criteria": options(11)})
    (choices,) = ask_faults({"type": "choice", "criteria": ["o"] * 256})
    assert (levels.type, choices.type) == ("list_type", "dict_type")


def test_a_bad_id_and_a_bad_question_are_both_listed(faults: Any) -> None:
    found = faults({"state": "s", "questions": {"": {"type": "noul"}}})
    assert [fault.loc for fault in found] == [("questions", ""), ("questions", "", "noul")]


def test_an_empty_list_of_levels_is_a_schema_fault(ask_faults: Any) -> None:
    (fault,) = ask_faults({"type": "score", "criteria": []})
    assert (fault.type, fault.exact) == ("too_short", None)
    assert fault.msg == "List should have at least 1 item after validation, not 0"


def test_wider_wire_limits_let_a_wider_model_s_requests_pass(ask: Any, ask_faults: Any) -> None:
    limits = WireLimits(max_options=300, max_levels=255, max_questions=1)
    assert ask({"type": "score", "criteria": ["l"] * 255}, limits=limits)
    assert ask({"type": "choice", "criteria": options(300)}, limits=limits)
    (fault,) = ask_faults({"type": "score", "criteria": ["l"] * 256}, limits=limits)
    assert fault.msg == "Too many score levels. Must have at most 255 levels."


def test_the_number_of_questions_can_be_limited(parse: Any, faults: Any) -> None:
    body = {
        "state": "s",
        "questions": {f"q{i}": {"type": "noul", "instructions": "?"} for i in range(300)},
    }
    assert len(parse(body).questions) == 300
    (fault,) = faults(body, limits=WireLimits(max_questions=299))
    assert fault.msg == "Too many questions. Must have at most 299 questions."


@pytest.mark.parametrize(
    ("criteria", "kind"),
    [
        (["left", "right"], "dict_type"),
        (None, "dict_type"),
        ("left", "dict_type"),
        (3, "dict_type"),
    ],
)
def test_choice_criteria_of_another_shape(ask_faults: Any, criteria: Any, kind: str) -> None:
    (fault,) = ask_faults({"type": "choice", "criteria": criteria})
    assert (fault.loc, fault.type) == (("questions", "q", "choice", "criteria"), kind)


@pytest.mark.parametrize("criteria", [{"0": "quiet", "1": "loud"}, None, "quiet", 3])
def test_score_criteria_of_another_shape(ask_faults: Any, criteria: Any) -> None:
    (fault,) = ask_faults({"type": "score", "criteria": criteria})
    assert (fault.loc, fault.type) == (("questions", "q", "score", "criteria"), "list_type")


@pytest.mark.parametrize("criteria", [["a"], "a", 3, True])
def test_noul_criteria_of_another_shape(ask_faults: Any, criteria: Any) -> None:
    (fault,) = ask_faults({"type": "noul", "instructions": "?", "criteria": criteria})
    assert (fault.loc, fault.type) == (("questions", "q", "noul", "criteria"), "dict_type")


@pytest.mark.parametrize("kind", ["choice", "score"])
def test_criteria_are_required_for_choice_and_score(ask_faults: Any, kind: str) -> None:
    (fault,) = ask_faults({"type": kind, "instructions": "?", "min": 1})
    assert (fault.loc, fault.type) == (("questions", "q", kind, "criteria"), "missing")
    assert fault.input is None


@pytest.mark.parametrize("kind", ["boolean", "box", "Noul", "", None, 5, True, [], {}, 1.5])
def test_an_unknown_type_lists_the_accepted_ones(ask_faults: Any, kind: Any) -> None:
    (fault,) = ask_faults({"type": kind, "instructions": "?"})
    assert fault.type == "union_tag_invalid"
    assert fault.loc == ("questions", "q")
    assert "'noul', 'choice', 'score'" in fault.msg


def test_a_missing_type_lists_the_accepted_ones(ask_faults: Any) -> None:
    (fault,) = ask_faults({"instructions": "?"})
    assert fault.type == "union_tag_not_found"
    assert "'noul', 'choice', 'score'" in fault.msg


@pytest.mark.parametrize("question", [None, 5, "noul", [], True])
def test_a_question_must_be_an_object(ask_faults: Any, question: Any) -> None:
    (fault,) = ask_faults(question)
    assert (fault.loc, fault.type) == (("questions", "q"), "model_attributes_type")


@pytest.mark.parametrize("qid", [" ", "ticket-1", "q.2", "with space", "한국어", "🙂", "x" * 300])
def test_any_non_empty_id_is_accepted(parse: Any, qid: str) -> None:
    body = {"state": "s", "questions": {qid: {"type": "noul", "instructions": "?"}}}
    assert list(parse(body).questions) == [qid]


def test_an_empty_id_is_refused(faults: Any) -> None:
    (fault,) = faults({"state": "s", "questions": {"": {"type": "noul", "instructions": "?"}}})
    assert fault.loc == ("questions", "")
    assert fault.exact == "sentence"


def test_an_empty_option_name_is_accepted(ask: Any) -> None:
    assert list(ask({"type": "choice", "criteria": {"": None, "b": "x"}}).criteria) == ["", "b"]


def test_unknown_fields_of_a_question_are_ignored_unless_strict(ask: Any, ask_faults: Any) -> None:
    question = {"type": "choice", "criteria": {"a": None}, "critera": {"c": None}, "zzz": 1}
    assert ask(question) == Choice(None, {"a": None})
    near, far = ask_faults(question, strict=True)
    assert near.loc == ("questions", "q", "choice", "critera")
    assert near.type == "extra_forbidden"
    assert "did you mean `criteria`?" in near.msg
    assert "did you mean" not in far.msg


def test_stray_noul_criteria_are_refused_when_strict(ask_faults: Any) -> None:
    question = {"type": "noul", "instructions": "?", "criteria": {"true": "t", "flase": "f"}}
    (fault,) = ask_faults(question, strict=True)
    assert fault.loc == ("questions", "q", "noul", "criteria", "flase")
    assert "did you mean `false`?" in fault.msg


def test_faults_of_a_question_follow_its_own_order(ask_faults: Any) -> None:
    first = ask_faults({"criteria": 3, "type": "score", "instructions": 4})
    assert [f.loc[3] for f in first] == ["criteria", *["instructions"] * 3]
    second = ask_faults({"instructions": 4, "type": "score", "criteria": 3})
    assert [f.loc[3] for f in second] == [*["instructions"] * 3, "criteria"]


def test_every_bad_question_is_listed_at_once(faults: Any) -> None:
    found = faults(
        {
            "state": "x",
            "questions": {
                "s": {"type": "score", "criteria": {"0": "quiet"}},
                "ok": {"type": "noul", "instructions": "?"},
                "c": {"type": "choice", "criteria": ["left"]},
                "n": {"type": "choice", "criteria": {"a": 1}},
                "y": {"type": "noul", "criteria": {"yes": "y"}},
                "z": {"type": "score", "criteria": ["a", None]},
            },
        }
    )
    assert list(dict.fromkeys(f.loc[1] for f in found)) == ["s", "c", "n", "y", "z"]


def test_reading_stops_soon_after_the_last_fault_that_is_listed() -> None:
    faults: list[Fault] = []
    read_questions({f"q{i}": 0 for i in range(5 * MAX_FAULTS)}, WireRules(), faults)
    assert len(faults) == MAX_FAULTS + 1
