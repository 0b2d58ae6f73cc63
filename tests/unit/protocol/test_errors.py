"""Section 3: every error in every dialect, and that both SDKs find the sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from systone.errors import (
    CapacityError,
    ConfigError,
    DeadlineError,
    EngineDownError,
    EngineFaultError,
    Fault,
    RequestError,
    SystoneError,
)
from systone.protocol import errors, refusals, systemone
from systone.protocol.types import Dialect

DIALECTS: tuple[Dialect, ...] = ("default", "jev-exact", "open-jev")
BAD = {
    "state": 3,
    "questions": {"heat": {"type": "score", "criteria": ["calm", None]}},
}


def refused(body: Any, dialect: Dialect = "default") -> RequestError:
    with pytest.raises(RequestError) as caught:
        systemone.parse(json.dumps(body).encode(), dialect=dialect)
    return caught.value


def reply(error: SystoneError, **options: Any) -> tuple[int, Any]:
    found = errors.render(error, **options)
    assert found.headers["content-type"] == "application/json"
    return found.status, json.loads(found.body)


def typesafe_message(body: Any) -> str | None:
    """The sentence typesafe-sdk shows: its published look-up order."""
    error, message, detail = body.get("error"), body.get("message"), body.get("detail")
    if isinstance(error, str):
        return error
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    if isinstance(message, str):
        return message
    if isinstance(detail, str):
        return detail
    if isinstance(detail, dict):
        return detail.get("message")
    return "; ".join(entry["msg"] for entry in detail) if isinstance(detail, list) else None


ALL: dict[str, SystoneError] = {
    "schema": refused(BAD),
    "json": RequestError.at((3,), "Invalid JSON: x", type="json_invalid"),
    "adapter": RequestError.at(("questions", "q"), "model takes 26 options", code="too_many"),
    "model": refusals.unknown_model("no-such-model-7", ["systone-mini", "jev-latest"]),
    "path": refusals.not_found("/v2/systemone"),
    "method": refusals.method_not_allowed("GET", ["POST", "OPTIONS"]),
    "media": refusals.unsupported_media_type("Content-Type text/plain is not read here."),
    "large": refusals.body_too_large(4096),
    "key": refusals.unauthenticated(missing=True),
    "full": CapacityError("64 requests wait; try again.", retry_after_s=1.2),
    "late": DeadlineError("deadline passed"),
    "fault": EngineFaultError("NaN in row 3", code="non_finite_output"),
    "down": EngineDownError("the device was lost"),
    "config": ConfigError("a setting is wrong"),
    "silent": SystoneError(),
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_sdk_finds_a_sentence_in_every_error(name: str, dialect: Dialect) -> None:
    status, body = reply(ALL[name], dialect=dialect)
    assert 400 <= status < 600
    message = typesafe_message(body)
    assert message
    if name not in ("fault", "config", "silent") or dialect != "open-jev":
        for fault in getattr(ALL[name], "faults", ())[:1]:
            assert name == "model" or fault.msg in message or fault.loc[0] in message


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_shape_per_dialect_on_every_status(name: str, dialect: Dialect) -> None:
    _, body = reply(ALL[name], dialect=dialect)
    if dialect == "open-jev":
        assert isinstance(body["error"], str)
        assert body.keys() <= {"error", "error_type"}
    else:
        assert list(body) == ["detail"]
    status, body = reply(ALL[name], dialect=dialect, form="openai")
    assert list(body) == ["error"]
    assert list(body["error"]) == ["message", "type", "param", "code"]
    assert isinstance(body["error"]["message"], str)
    assert body["error"]["message"]
    assert status != 422


@pytest.mark.parametrize(
    ("name", "status", "error_type", "code"),
    [
        ("model", 404, "api_usage_error", "unknown_model"),
        ("path", 404, "api_usage_error", "not_found"),
        ("method", 405, "api_usage_error", "method_not_allowed"),
        ("media", 415, "api_usage_error", "unsupported_media_type"),
        ("large", 413, "api_usage_error", "body_too_large"),
        ("key", 401, "authentication_error", "invalid_api_key"),
        ("full", 429, "rate_limit_error", "overloaded"),
        ("late", 504, "timeout_error", "deadline_exceeded"),
        ("fault", 500, "internal_error", "non_finite_output"),
        ("down", 503, "overloaded_error", "engine_down"),
        ("config", 500, "internal_error", "internal_error"),
    ],
)
def test_default_statuses(name: str, status: int, error_type: str, code: str) -> None:
    found, body = reply(ALL[name])
    assert found == status
    assert body["detail"]["error_type"] == error_type
    assert body["detail"]["code"] == code


def test_schema_faults_are_a_list_in_pydantic_s_form() -> None:
    status, body = reply(ALL["schema"])
    assert status == 422
    assert body["detail"][0] == {
        "type": "string_type",
        "loc": ["body", "state", "str"],
        "msg": "Input should be a valid string",
        "input": 3,
    }
    assert body["detail"][3]["loc"] == ["body", "questions", "heat", "score", "criteria", 1, "str"]
    assert body["detail"][3]["input"] is None
    assert len(body["detail"]) == 6


def test_the_live_sentences_are_messages_of_the_default_list() -> None:
    questions = {
        "a": {"type": "noul"},
        "b": {"type": "choice", "criteria": {}},
        "c": {"type": "choice", "criteria": {f"o{i}": None for i in range(256)}},
        "d": {"type": "score", "criteria": ["l"] * 11},
    }
    status, body = reply(refused({"state": "s", "questions": questions}))
    assert status == 422
    assert [entry["msg"] for entry in body["detail"]] == [
        "Noul question must have criteria or instructions: a",
        "Choice question must have at least one choice: b",
        "Too many choices. Must have at most 255 choices.",
        "Too many score levels. Must have at most 10 levels.",
    ]
    assert body["detail"][2]["ctx"]["actual_length"] == 256
    assert body["detail"][2]["loc"] == ["body", "questions", "c", "choice", "criteria"]


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({"type": "noul"}, "Noul question must have criteria or instructions: q"),
        (
            {"type": "choice", "criteria": {}},
            "Choice question must have at least one choice: q",
        ),
        (
            {"type": "choice", "criteria": {f"o{i}": None for i in range(256)}},
            "Too many choices. Must have at most 255 choices.",
        ),
        (
            {"type": "score", "criteria": ["l"] * 11},
            "Too many score levels. Must have at most 10 levels.",
        ),
    ],
)
def test_jev_exact_answers_counts_with_a_plain_400(question: Any, sentence: str) -> None:
    error = refused({"state": "s", "questions": {"q": question}}, "jev-exact")
    assert reply(error, dialect="jev-exact") == (400, {"detail": sentence})


def test_jev_exact_answers_an_empty_id_with_a_plain_400() -> None:
    error = refused({"state": "s", "questions": {"": {"type": "noul", "instructions": "?"}}})
    status, body = reply(error, dialect="jev-exact")
    assert status == 400
    assert isinstance(body["detail"], str)


def test_jev_exact_names_no_served_models() -> None:
    assert reply(ALL["model"], dialect="jev-exact") == (
        400,
        {
            "detail": {
                "error_type": "api_usage_error",
                "message": "Unknown model: no-such-model-7",
            }
        },
    )
    empty = refusals.unknown_model("", ["m"])
    assert reply(empty, dialect="jev-exact")[1]["detail"]["message"] == "Unknown model: "


def test_jev_exact_refuses_unknown_top_level_fields() -> None:
    good = {"type": "noul", "instructions": "?"}
    error = refused({"state": "s", "questions": {"q": good}, "seed": 1}, "jev-exact")
    assert reply(error, dialect="jev-exact") == (
        400,
        {"detail": {"error_type": "api_usage_error", "message": "Invalid request."}},
    )


def test_jev_exact_names_image_faults_as_usage_errors() -> None:
    good = {"type": "noul", "instructions": "?"}
    body = {"state": "s", "questions": {"q": good}, "assets": {"I": {"data_base64": "eHg="}}}
    status, found = reply(refused(body, "jev-exact"), dialect="jev-exact")
    assert status == 400
    assert found["detail"]["error_type"] == "api_usage_error"
    assert "neither a PNG nor a JPEG" in found["detail"]["message"]


def test_jev_exact_hides_sentences_behind_schema_faults() -> None:
    questions = {"a": {"type": "noul"}, "b": {"type": "score", "criteria": []}}
    status, body = reply(refused({"state": 1, "questions": questions}), dialect="jev-exact")
    assert status == 422
    assert [e["loc"][1:3] for e in body["detail"]] == [
        ["state", "str"],
        ["state", "dict[str,any]"],
        ["state", "list[any]"],
        ["questions", "b"],
    ]


def test_the_token_budget_has_no_message_in_jev_exact() -> None:
    error = RequestError.at(
        ("questions", "q"),
        "9000 tokens; at most 4096.",
        code="max_tokens_exceeded",
        exact="max_tokens_exceeded",
    )
    expected = {"detail": {"error_type": "max_tokens_exceeded"}}
    assert reply(error, dialect="jev-exact") == (400, expected)
    status, body = reply(error)
    assert (status, body["detail"][0]["type"]) == (422, "max_tokens_exceeded")
    assert body["detail"][0]["msg"] == "9000 tokens; at most 4096."
    error.status = 413
    assert reply(error)[1]["detail"]["error_type"] == "max_tokens_exceeded"


def test_a_fault_without_a_type_takes_its_error_s_code() -> None:
    _, body = reply(ALL["adapter"])
    assert body["detail"][0]["type"] == "too_many"


@pytest.mark.parametrize(
    ("name", "status", "text"),
    [
        ("model", 422, "Unknown model: no-such-model-7. This server serves: systone-mini"),
        ("adapter", 422, "model takes 26 options"),
        ("media", 415, "text/plain"),
        ("large", 413, "4096 bytes"),
        ("path", 404, "No route /v2/systemone"),
        ("method", 405, "GET is not allowed"),
        ("full", 429, "64 requests wait"),
        ("down", 503, "device was lost"),
        ("late", 504, "deadline"),
        ("fault", 500, "model inference failed"),
    ],
)
def test_open_jev_statuses(name: str, status: int, text: str) -> None:
    found, body = reply(ALL[name], dialect="open-jev")
    assert found == status
    assert text in body["error"]
    assert body.get("error_type") == ("non_finite_output" if name == "fault" else None)


def test_open_jev_maps_any_other_refusal_to_422() -> None:
    error = RequestError.at(("questions",), "cut body", status=400, code="invalid_encoding")
    assert reply(error, dialect="open-jev") == (422, {"error": "cut body"})


def test_an_adapter_s_sentence_reaches_open_jev_clients_unchanged() -> None:
    text = "question q: 5000 tokens exceeds max_length=4096; no silent truncation"
    error = RequestError.at(("questions", "q", "noul"), text, code="max_tokens_exceeded")
    assert reply(error, dialect="open-jev") == (422, {"error": text})


@pytest.mark.parametrize(
    ("name", "status", "kind", "param", "code"),
    [
        ("schema", 400, "invalid_request_error", "state", "string_type"),
        ("model", 404, "invalid_request_error", "model", "model_not_found"),
        ("path", 404, "invalid_request_error", None, "not_found"),
        ("key", 401, "authentication_error", None, "invalid_api_key"),
        ("full", 429, "rate_limit_error", None, "overloaded"),
        ("fault", 500, "server_error", None, "non_finite_output"),
        ("down", 503, "server_error", None, "engine_down"),
    ],
)
def test_openai_statuses(name: str, status: int, kind: str, param: str | None, code: str) -> None:
    found, body = reply(ALL[name], form="openai", dialect="jev-exact")
    error = body["error"]
    assert (found, error["type"], error["param"], error["code"]) == (status, kind, param, code)


def test_positional_question_ids_read_as_indices_in_openai_s_param() -> None:
    error = RequestError.at(("questions", "2", "choice", "criteria"), "too many options")
    assert reply(error, form="openai")[1]["error"]["param"] == "questions[2].choice.criteria"


@pytest.mark.parametrize(
    ("after_s", "seconds", "millis"),
    [
        (1.2, "2", "1200"),
        (0.0501, "1", "51"),
        (0, "0", "0"),
        (-1, "0", "0"),
        (1e9, "3600", "3600000"),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_headers(after_s: float, seconds: str, millis: str, status: int) -> None:
    found = errors.render(CapacityError("full", retry_after_s=after_s, status=status))
    assert found.status == status
    assert found.headers["retry-after"] == seconds
    assert found.headers["retry-after-ms"] == millis


def test_a_down_engine_says_when_to_retry() -> None:
    assert errors.render(EngineDownError("loading")).headers["retry-after"] == "1"


def test_jev_exact_details_carry_only_the_hosted_api_s_fields() -> None:
    for name in ("path", "key", "full", "fault", "down"):
        body = reply(ALL[name], dialect="jev-exact")[1]
        assert list(body["detail"]) == ["error_type", "message"]


def test_an_error_renders_whatever_it_carries() -> None:
    odd = RequestError([Fault(("q",), "x", "m", float("nan"), {"a": {1, 2}, "b": float("inf")})])
    (entry,) = reply(odd)[1]["detail"]
    assert entry["input"] == "nan"
    assert entry["ctx"] == {"a": "{1, 2}", "b": "inf"}


def test_a_text_of_many_faults_says_how_many_it_leaves_out() -> None:
    error = refused({"state": "s", "questions": {f"q{i}": 0 for i in range(250)}})
    message = reply(error, form="openai")[1]["error"]["message"]
    assert message.count("questions.q") == 100
    assert message.endswith("and 150 more")


def test_405_and_401_carry_their_headers() -> None:
    assert errors.render(ALL["method"]).headers["allow"] == "POST, OPTIONS"
    assert errors.render(ALL["key"]).headers["www-authenticate"] == "Bearer"


def test_a_long_id_is_cut_in_loc() -> None:
    error = RequestError([Fault(("questions", "i" * 100_000), "missing", "Field required")] * 3)
    assert len(errors.render(error).body) < 2_000
    assert len(errors.render(error, form="openai").body) < 2_000


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/v1/systemone", "systemone"),
        ("/v1/models", "systemone"),
        ("/v1/v1/systemone", "systemone"),
        ("/v1/decisions", "openai"),
        ("/v1/chat/completions", "openai"),
    ],
)
def test_the_form_of_an_unread_body_follows_its_path(path: str, form: str) -> None:
    assert errors.form_of_path(path) == form
