"""Requests that can't be answered as sent: one clear 4xx that names the field, never a 5xx.

Each test is a public kind of fault restated (its name opens the docstring)."""

from __future__ import annotations

from typing import Any

import pytest

FERRY = (
    "The 07:40 ferry is cancelled because of fog. "
    "The 09:10 sailing will carry both loads and may leave ten minutes late."
)
FOG = {"q": {"type": "noul", "instructions": "Is there fog?"}}


def locs(reply: Any) -> set[tuple[Any, ...]]:
    assert reply.status_code == 422, reply.text
    return {tuple(fault["loc"]) for fault in reply.json()["detail"]}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"state": "Anything.", "questions": {}}, "questions"),
        ({"state": "Anything.", "questions": None}, "questions"),
        ({"state": "Anything.", "questions": []}, "questions"),
        ({"state": "Anything."}, "questions"),
        ({"questions": FOG}, "state"),
        ({"state": None, "questions": FOG}, "state"),
        ({"state": 3, "questions": FOG}, "state"),
    ],
)
def test_empty_collections_are_refused_by_field(server, body, field) -> None:
    """empty-questions"""
    before = server.admitted()
    reply = server.post("/v1/systemone", body)
    assert server.admitted() == before  # no work of the model's
    assert any(loc[:2] == ("body", field) for loc in locs(reply))
    assert server.decide(FERRY, FOG)


@pytest.mark.parametrize("raw", [b"[]", b"", b"7", b"null", b'"x"', b"{", b"\xff\xfe", b"{}x"])
def test_bodies_that_are_no_object_are_refused(server, raw) -> None:
    """empty-questions"""
    reply = server.client.post(
        "/v1/systemone", content=raw, headers={"content-type": "application/json"}
    )
    assert reply.status_code == 422, reply.text
    assert reply.json()["detail"][0]["loc"][0] == "body"


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (
            '{"state":"x","questions":{"q":{"type":"choice","instructions":"?",'
            '"criteria":{"a":"one","a":"two","b":"three"}}}}',
            "a",
        ),
        (
            '{"state":"x","questions":{"twin":{"type":"noul","instructions":"?"},'
            '"twin":{"type":"noul","instructions":"!"}}}',
            "twin",
        ),
        ('{"state":"x","state":"y","questions":{"q":{"type":"noul","instructions":"?"}}}', "state"),
    ],
)
def test_duplicate_keys_are_refused_by_name(server, raw, key) -> None:
    """duplicate-json-keys"""
    reply = server.client.post(
        "/v1/systemone", content=raw, headers={"content-type": "application/json"}
    )
    assert reply.status_code == 422
    assert key in reply.json()["detail"][0]["msg"]


def test_every_wrong_criteria_shape_is_listed_in_one_reply(server) -> None:
    """wrong-criteria-shape"""
    questions = {
        "s": {"type": "score", "instructions": "How loud?", "criteria": {"0": "quiet"}},
        "c": {"type": "choice", "instructions": "Which?", "criteria": ["left", "right"]},
        "n": {"type": "choice", "instructions": "Which?", "criteria": {"left": 1}},
        "l": {"type": "score", "instructions": "How?", "criteria": ["low", None]},
        "i": {"type": "noul", "instructions": 5},
    }
    found = locs(server.post("/v1/systemone", {"state": "x", "questions": questions}))
    for name, kind in (("s", "score"), ("c", "choice"), ("n", "choice"), ("l", "score")):
        assert any(loc[:5] == ("body", "questions", name, kind, "criteria") for loc in found), name
    assert any(loc[:5] == ("body", "questions", "i", "noul", "instructions") for loc in found)
    assert any(loc[5:6] == (1,) for loc in found if loc[2] == "l")


def test_unknown_types_and_missing_criteria_are_refused_extra_fields_ignored(server) -> None:
    """foreign-dialect"""
    good = {"type": "choice", "criteria": {"a": None, "b": None}, "critera": {"c": None}}
    questions: dict[str, Any] = {
        "b": {"type": "boolean", "question": "Is it x?"},
        "m": {"type": "score", "instructions": "rate", "min": 1, "max": 5},
        "t": good,
    }
    found = locs(server.post("/v1/systemone", {"state": "x", "questions": questions}))
    assert {loc[2] for loc in found} == {"b", "m"}
    assert set(server.decide("x", {"t": good})["t"]["probabilities"]) == {"a", "b"}


def test_optional_parts_may_be_absent_or_null(server) -> None:
    """null-criteria"""
    answers = server.decide(
        "The kiln reached 1240 C at 03:10.",
        {
            "hot": {"type": "noul", "instructions": "Above 1000 C?", "criteria": None},
            "bare": {"type": "noul", "instructions": "Was it at night?"},
            "part": {"type": "noul", "criteria": {"true": "a kiln is mentioned"}},
            "mix": {"type": "choice", "criteria": {"kiln": None, "oven": "kitchen oven"}},
        },
    )
    assert list(answers) == ["hot", "bare", "part", "mix"]
    assert list(answers["mix"]["probabilities"]) == ["kiln", "oven"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_numbers_that_are_not_finite_are_refused(server, number) -> None:
    """structured-state"""
    raw = f'{{"state":{{"n":{number}}},"questions":{{"q":{{"type":"noul","instructions":"?"}}}}}}'
    reply = server.client.post(
        "/v1/systemone", content=raw, headers={"content-type": "application/json"}
    )
    assert reply.status_code == 422, reply.text


@pytest.mark.parametrize("depth", [65, 200, 5000, 200_000])
def test_deep_nesting_is_refused_not_a_recursion_error(server, depth) -> None:
    """structured-state"""
    raw = (
        f'{{"state":{"[" * depth}{"]" * depth},'
        '"questions":{"q":{"type":"noul","instructions":"?"}}}'
    )
    reply = server.client.post(
        "/v1/systemone", content=raw, headers={"content-type": "application/json"}
    )
    assert reply.status_code == 422, reply.text


def test_odd_but_legal_json_states_are_answered(server) -> None:
    """structured-state"""
    state = {
        "z": 1,
        "a": [True, None, 1.0, 1000.0],
        "id": 12345678901234567890,
        "text": 'line\nbreak – "q"',
        "nested": {"deep": {"deeper": {"x": [{}]}}},
    }
    assert 0 <= server.decide(state, FOG)["q"]["noul"] <= 1


@pytest.mark.parametrize("state", ["", " ", {}, [], "\n\t", "​"])
def test_blank_texts_are_answered_and_stay_undecided(server, state) -> None:
    """empty-text: a blank state is answered, and an uncalibrated model can't claim to know."""
    answers = server.decide(
        state,
        {
            "any": {"type": "noul", "instructions": "Does the text mention a price?"},
            "blank": {"type": "choice", "instructions": "", "criteria": {"yes": "", "no": None}},
            "nameless": {"type": "choice", "criteria": {"": None, "x": None}},
        },
    )
    assert abs(answers["any"]["noul"] - 0.5) < 0.25
    assert list(answers["nameless"]["probabilities"]) == ["", "x"]


def test_unknown_model_is_refused_with_the_served_names(server) -> None:
    """model-name"""
    reply = server.post(
        "/v1/systemone", {"model": "no-such-model-7", "state": FERRY, "questions": FOG}
    )
    assert reply.status_code == 404
    detail = reply.json()["detail"]
    assert detail["error_type"]
    assert "no-such-model-7" in detail["message"]
    assert "systone-mini" in detail["message"]


@pytest.mark.parametrize("name", [None, "jev-latest", "jev-preview", "systone-mini"])
def test_absent_name_and_aliases_are_answered_by_the_named_checkpoint(server, name) -> None:
    """model-name"""
    body = {"state": FERRY, "questions": FOG} | ({"model": name} if name else {})
    reply = server.post("/v1/systemone", body)
    assert reply.status_code == 200
    assert reply.json()["model"] == "systone-mini"


def test_exact_revision_from_the_listing_is_accepted(server) -> None:
    """model-name"""
    card = server.client.get("/v1/models").json()["models"][0]
    name = f"{card['name']}@{card['revision']}"
    reply = server.post("/v1/systemone", {"model": name, "state": FERRY, "questions": FOG})
    assert reply.status_code == 200, reply.text
    assert reply.headers["x-systone-model"] == name


def test_foreign_routes_point_to_ours(server) -> None:
    """capability-mismatch"""
    reply = server.post("/v1/chat/completions", {"model": "x", "messages": []})
    assert reply.status_code == 404
    assert "/v1/systemone" in reply.text
    twice = server.post("/v1/v1/systemone", {})
    assert twice.status_code == 404
    assert "/v1" in twice.json()["detail"]["message"]


def test_wrong_method_names_the_right_one(server) -> None:
    reply = server.client.get("/v1/systemone")
    assert reply.status_code == 405
    assert "POST" in reply.headers["allow"]
    assert reply.json()["detail"]


def test_foreign_content_types_are_refused(server) -> None:
    reply = server.client.post(
        "/v1/systemone", content=b"state=x", headers={"content-type": "text/csv"}
    )
    assert reply.status_code == 415
    assert reply.json()["detail"]


@pytest.mark.parametrize("field", ["images", "files", "audio", "videos"])
def test_media_fields_are_refused_not_dropped(server, field) -> None:
    reply = server.post("/v1/systemone", {"state": FERRY, "questions": FOG, field: ["data"]})
    assert 400 <= reply.status_code < 500
    assert field in reply.text


def test_images_are_refused_by_a_text_model(server) -> None:
    pixel = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
        "rkJggg=="
    )
    reply = server.post(
        "/v1/systemone",
        {
            "state": {"photo": "<photo>"},
            "questions": FOG,
            "assets": {"<photo>": {"type": "image", "format": "png", "data_base64": pixel}},
        },
    )
    assert 400 <= reply.status_code < 500
    assert "image" in reply.text
