"""What the model accepts and refuses, in both dialects, and what it says about it."""

from dataclasses import replace

import pytest

from systone.errors import ConfigError, RequestError
from systone.models.open_jev import OpenJevCheckpoint, OpenJevSettings
from systone.models.open_jev.card import card_of
from systone.models.open_jev.checks import read_request
from systone.protocol.types import Asset, Choice, Noul, Request, Score
from tests.unit.models_open_jev.conftest import NINE_B
from tests.unit.models_open_jev.vectors import VECTOR_A


def ask(question, *, dialect="default", state="S", **others) -> Request:
    return Request(state, {"q": question, **others}, dialect=dialect)


def refused(adapter, request) -> RequestError:
    with pytest.raises(RequestError) as caught:
        adapter.prepare(request)
    assert caught.value.status == 422
    return caught.value


BEYOND_THE_REFERENCE = [
    (Noul(None, {"true": "a", "false": "b"}), "no instructions", ("questions", "q", "noul")),
    (Choice(None, {"a": None}), "no instructions", ("questions", "q", "choice")),
    (Score(None, ("a", "b")), "no instructions", ("questions", "q", "score")),
    (Noul("Q", {"true": "a"}), "false side", ("questions", "q", "noul", "criteria", "false")),
    (Noul("Q", {"false": "a"}), "true side", ("questions", "q", "noul", "criteria", "true")),
    (
        Noul("Q", {"true": "a", "false": None}),
        "false side",
        ("questions", "q", "noul", "criteria", "false"),
    ),
    (Noul("Q", {}), "true side", ("questions", "q", "noul", "criteria", "true")),
    (
        Noul("Q", {"true": "a", "false": "b", "maybe": "c"}),
        "'maybe' is not read",
        ("questions", "q", "noul", "criteria", "maybe"),
    ),
    (Score("Q", ("only",)), "one level", ("questions", "q", "score", "criteria")),
]


@pytest.mark.parametrize(("question", "note", "loc"), BEYOND_THE_REFERENCE)
def test_the_default_dialect_answers_with_a_note_what_the_models_own_refuses(
    adapter, question, note, loc
):
    notes = adapter.prepare(ask(question)).notes
    assert any(note in text and text.startswith("question q: ") for text in notes)
    error = refused(adapter, ask(question, dialect="open-jev"))
    assert error.faults[0].loc == loc
    assert str(error).startswith("question q: ")


def test_what_the_reference_accepts_gives_no_note(adapter):
    for question in (
        Noul("Q"),
        Noul("", {"true": "", "false": {}}),
        Choice({}, {"": None, "b": [], "c": "b"}),
        Score([], ("same", "same")),
    ):
        for dialect in ("default", "open-jev"):
            assert adapter.prepare(ask(question, dialect=dialect)).notes == ()


@pytest.mark.parametrize(
    ("question", "head"),
    [
        (Noul("Q", {"true": "T", "false": "F"}), "Question: Q\nYes means: T\nNo means: F\n"),
        (Noul("Q", {"false": "F"}), "Question: Q\nNo means: F\n"),
        (Noul("Q", {"true": "T", "x": "X"}), "Question: Q\nYes means: T\n"),
        (Noul(None, {"true": "T"}), "Question: \nYes means: T\n"),
        (Noul("Q", {"true": None}), "Question: Q\n"),
        (Noul(), "Question: \n"),
        (Score(None, ("a", "b")), "Question: \nProposed answer:"),
        (Choice("Q", {"a": None}), "Question: Q\nProposed answer:"),
    ],
)
def test_only_the_parts_given_are_rendered(question, head):
    assert read_request(ask(question), strict=False).questions[0].head == head


WRONG_EVERYWHERE = [
    (Noul(7), "instructions"),
    (Noul(True), "instructions"),
    (Noul("Q", {"true": 1, "false": "b"}), "true"),
    (Choice("Q", {"a": 3.5}), "a"),
    (Choice("Q", {}), "criteria"),
    (Choice("Q", {str(i): None for i in range(256)}), "criteria"),
    (Score("Q", ()), "criteria"),
    (Score("Q", ("a",) * 11), "criteria"),
    (Score("Q", ("a", None)), 1),
    (Score("Q", ("a", 2)), 1),
    (Score("Q", ("a", [float("nan")])), 1),
    (Choice("Q", {"\ud800": None}), "\ud800"),
]


@pytest.mark.parametrize("dialect", ["default", "open-jev"])
@pytest.mark.parametrize(("question", "field"), WRONG_EVERYWHERE)
def test_a_slot_of_the_wrong_shape_is_refused_by_name(adapter, question, field, dialect):
    error = refused(adapter, ask(question, dialect=dialect))
    assert error.faults[0].loc[-1] == field
    assert error.faults[0].loc[:3] == ("questions", "q", question.kind)


@pytest.mark.parametrize("state", [None, 3, 2.5, False])
def test_a_state_that_is_not_text_is_refused(adapter, state):
    error = refused(adapter, ask(Noul("Q"), state=state))
    assert error.faults[0].loc == ("state",)


def test_images_are_refused(adapter):
    request = replace(ask(Noul("Q")), assets={"img": Asset(b"", "png")})
    assert refused(adapter, request).faults[0].loc == ("assets",)


def test_limits_hold_at_both_ends(adapter):
    options = {str(i): None for i in range(255)}
    levels = ("a",) * 10
    assert adapter.prepare(ask(Choice("Q", options))).cost.rows == 255
    assert adapter.prepare(ask(Score("Q", levels), dialect="open-jev")).cost.rows == 10
    assert adapter.prepare(ask(Score("Q", levels[:2]), dialect="open-jev")).cost.rows == 2


def test_more_than_4096_questions_or_none_are_refused(adapter):
    assert refused(adapter, Request("S", {})).faults[0].loc == ("questions",)
    many = {str(i): Noul("Q") for i in range(4097)}
    assert "4097 given, 1 to 4096 allowed" in str(refused(adapter, Request("S", many)))


def test_more_than_65536_sequences_are_refused():
    options = Choice("Q", {str(i): None for i in range(255)})
    full = {str(i): options for i in range(257)}  # 65,535
    assert len(read_request(Request("S", full | {"n": Noul("Q")}), strict=True).questions) == 258
    with pytest.raises(RequestError, match="more than 65536 candidate sequences"):
        read_request(Request("S", full | {"n": Noul("Q"), "m": Noul("Q")}), strict=True)


def test_an_over_long_candidate_is_refused_with_the_contracts_message(adapter_with):
    adapter = adapter_with(max_length=79)
    error = refused(adapter, VECTOR_A)
    assert str(error) == ("question route: 80 tokens exceeds max_length=79; no silent truncation")
    assert error.code == "max_tokens_exceeded"
    assert error.faults[0].loc == ("questions", "route")
    assert adapter_with(max_length=82).prepare(VECTOR_A).input_tokens == 539
    assert "question urgency: 82 tokens" in str(refused(adapter_with(max_length=81), VECTOR_A))


def test_the_first_fault_in_request_order_wins(adapter_with):
    adapter = adapter_with(max_length=60)
    long, wrong = Noul("word " * 80), Noul(3)
    both = Request("S", {"a": wrong, "b": Choice("Q", {})})
    assert str(refused(adapter, both)).startswith("question a:")
    assert str(refused(adapter, Request(None, {"a": wrong}))).startswith("state")
    lengths = Request("S", {"a": Noul("Q"), "b": long, "c": long})
    assert str(refused(adapter, lengths)).startswith("question b:")
    # every shape is read before any length is known
    assert str(refused(adapter, Request("S", {"a": long, "b": wrong}))).startswith("question b:")


@pytest.mark.parametrize("name", [None, "open-jev", "open-jev-9b", "jev-latest", "Qwen/Qwen3.5-9B"])
def test_the_models_own_dialect_takes_its_names(adapter, name):
    adapter.prepare(replace(ask(Noul("Q"), dialect="open-jev"), model=name))


@pytest.mark.parametrize("name", ["", "open-jev-27b-v1.1", "gpt", "qwen/qwen3.5-9b"])
def test_the_models_own_dialect_refuses_other_names(adapter, name):
    error = refused(adapter, replace(ask(Noul("Q"), dialect="open-jev"), model=name))
    assert error.code == "unknown_model"
    assert error.faults[0].loc == ("model",)


def test_the_card_publishes_names_and_limits(adapter, adapter_with):
    card = adapter.card
    assert card.name == "Qwen/Qwen3.5-9B"
    assert card.aliases == ("open-jev", "open-jev-9b")
    limits = card.limits
    assert (limits.max_options, limits.min_levels, limits.max_levels) == (255, 1, 10)
    assert (limits.max_questions, limits.max_tokens, limits.max_images) == (4096, 4096, 0)
    assert adapter_with(max_length=16384).card.limits.max_tokens == 16384


@pytest.mark.parametrize(
    "settings", [{"max_length": 0}, {"max_length": 16385}, {"verify_every": -1}]
)
def test_settings_that_cannot_be_served_stop_start_up(settings):
    with pytest.raises(ConfigError):
        OpenJevSettings(**settings)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_checkpoint_with_an_unusable_temperature_stops_start_up(temperature):
    with pytest.raises(ConfigError, match="temperature"):
        replace(NINE_B, temperature=temperature)


def test_the_27b_answers_to_its_own_name():
    big = OpenJevCheckpoint("Qwen/Qwen3.8-27B", "r", "c", "2026-01-31", 2.5343690298472983)
    assert card_of(big, 4096).aliases == ("open-jev", "open-jev-27b-v1.1")
