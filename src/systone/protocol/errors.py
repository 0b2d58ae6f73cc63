"""Every error of the package as an HTTP reply, in the shape of one dialect.

Owns statuses, retry headers and error bodies; changes no message's meaning. One shape per dialect
on every status, so that a client reads each of them the same way:

    default     {"detail": [faults]} for 422, else {"detail": {error_type, message, code}}
    jev-exact   the same, plus the hosted API's 400 forms
    open-jev    {"error": text}, plus `error_type` on 500
    kev         {"detail": [faults]} for a body that can't be read, else {"detail": text}
    openai      {"error": {message, type, param, code}}: the form of /v1/decisions in any dialect
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from systone.errors import (
    CapacityError,
    DeadlineError,
    EngineDownError,
    EngineFaultError,
    Fault,
    RequestError,
    SystoneError,
)
from systone.protocol import jsontext
from systone.protocol.faults import Loc, path_of, sentence_of
from systone.protocol.types import Dialect

__all__ = ["ErrorReply", "Form", "form_of_path", "render"]

Form: TypeAlias = Literal["systemone", "openai"]

# A caller may retry at once when an engine is loading, draining or being replaced.
_DOWN_RETRY_S = 1.0
_MAX_RETRY_S = 3600.0
_MAX_LOC_TEXT = 200
# Refusals by the transport: the open-jev contract maps every other fault of a caller to 422.
_TRANSPORT = frozenset((401, 403, 404, 405, 413, 415))


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An error as the server sends it; `body` is JSON."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Outcome:
    """An error before any dialect: `faults` is empty unless the caller is at fault."""

    status: int
    code: str
    message: str
    headers: dict[str, str]
    faults: tuple[Fault, ...] = ()


def form_of_path(path: str) -> Form:
    """The form an unread body's error takes: OpenAI's on the routes of its clients."""
    openai = ("/v1/decisions", "/v1/chat", "/v1/completions", "/v1/responses", "/v1/embeddings")
    return "openai" if path.startswith(openai) else "systemone"


def render(
    error: SystoneError, *, dialect: Dialect = "default", form: Form = "systemone"
) -> ErrorReply:
    """The reply for any error of the package; never raises."""
    outcome = _outcome(error)
    if form == "openai":
        status, body = _openai(outcome)
    elif dialect == "open-jev":
        status, body = _open_jev(outcome)
    elif dialect == "kev":
        status, body = _kev(outcome)
    elif dialect == "jev-exact":
        status, body = _jev_exact(outcome)
    else:
        status, body = _default(outcome)
    headers = {"content-type": "application/json", **outcome.headers}
    return ErrorReply(status, headers, jsontext.dumps(body))


def _outcome(error: SystoneError) -> _Outcome:
    if isinstance(error, RequestError):
        message = sentence_of(error.faults) or error.code
        return _Outcome(error.status, error.code, message, _request_headers(error), error.faults)
    message = str(error)
    if isinstance(error, CapacityError):
        message = message or "The engine is at capacity."
        return _Outcome(error.status, "overloaded", message, _retry(error.retry_after_s))
    if isinstance(error, EngineDownError):
        message = message or "The engine is not ready."
        return _Outcome(503, "engine_down", message, _retry(_DOWN_RETRY_S))
    if isinstance(error, DeadlineError):
        message = message or "The request passed its deadline before it was dispatched."
        return _Outcome(504, "deadline_exceeded", message, {})
    code = error.code if isinstance(error, EngineFaultError) else "internal_error"
    return _Outcome(500, code, message or "Internal error.", {})


def _request_headers(error: RequestError) -> dict[str, str]:
    if error.status == 405:
        return {"allow": str(error.faults[0].ctx.get("allow", ""))}
    return {"www-authenticate": "Bearer"} if error.status == 401 else {}


def _retry(after_s: float) -> dict[str, str]:
    """Whole seconds for every client, milliseconds for the SDKs that read them first."""
    wait = min(max(0.0, after_s), _MAX_RETRY_S)
    return {
        "retry-after": str(math.ceil(wait)),
        "retry-after-ms": str(math.ceil(wait * 1000)),
    }


def _default(outcome: _Outcome) -> tuple[int, dict[str, Any]]:
    if outcome.status == 422:
        return 422, {"detail": [_entry(fault, outcome.code) for fault in outcome.faults]}
    return outcome.status, {"detail": {**_detail(outcome), "code": outcome.code}}


def _detail(outcome: _Outcome) -> dict[str, Any]:
    return {"error_type": _error_type(outcome), "message": outcome.message}


def _jev_exact(outcome: _Outcome) -> tuple[int, dict[str, Any]]:
    """The hosted API's forms. It checks the schema before anything else, so faults of the schema
    hide the others; of the rest it names the first."""
    if not outcome.faults:
        return outcome.status, {"detail": _detail(outcome)}
    first = outcome.faults[0]
    if outcome.code == "unknown_model":
        return 400, _usage_error(f"Unknown model: {first.ctx.get('model', '')}")
    schema = [_entry(f, outcome.code) for f in outcome.faults if f.exact is None]
    if schema:
        detail = schema if outcome.status == 422 else _detail(outcome)
        return outcome.status, {"detail": detail}
    if first.exact == "sentence":
        return 400, {"detail": first.msg}
    if first.exact == "max_tokens_exceeded":
        return 400, {"detail": {"error_type": "max_tokens_exceeded"}}
    return 400, _usage_error("Invalid request." if first.type == "extra_forbidden" else first.msg)


def _usage_error(message: str) -> dict[str, Any]:
    return {"detail": {"error_type": "api_usage_error", "message": message}}


def _open_jev(outcome: _Outcome) -> tuple[int, dict[str, Any]]:
    if not outcome.faults:
        if outcome.status == 500:
            return 500, {"error": "model inference failed", "error_type": outcome.code}
        return outcome.status, {"error": outcome.message}
    transport = outcome.status in _TRANSPORT and outcome.code != "unknown_model"
    return outcome.status if transport else 422, {"error": outcome.message}


def _kev(outcome: _Outcome) -> tuple[int, dict[str, Any]]:
    if outcome.status == 401:
        return 401, {
            "detail": "missing or invalid API key; send Authorization: Bearer <KEV_API_KEY>"
        }
    if outcome.status == 422 and outcome.code != "max_tokens_exceeded":
        return 422, {"detail": [_entry(fault, outcome.code) for fault in outcome.faults]}
    return outcome.status, {"detail": outcome.faults[0].msg if outcome.faults else outcome.message}


def _openai(outcome: _Outcome) -> tuple[int, dict[str, Any]]:
    status = 400 if outcome.status == 422 else outcome.status
    first = outcome.faults[0] if outcome.faults else None
    code = outcome.code
    if code == "unknown_model":
        code = "model_not_found"
    elif code == "invalid_request" and first is not None:
        code = first.type
    error = {
        "message": outcome.message,
        "type": _openai_type(status),
        "param": (_param(first.loc) or None) if first is not None else None,
        "code": code,
    }
    return status, {"error": error}


def _openai_type(status: int) -> str:
    if status in (401, 403):
        return "authentication_error"
    if status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"


def _error_type(outcome: _Outcome) -> str:
    """The `error_type` of a refusal with a message."""
    if outcome.code == "max_tokens_exceeded":
        return "max_tokens_exceeded"
    if outcome.status in (401, 403):
        return "authentication_error"
    if outcome.status == 429:
        return "rate_limit_error"
    if outcome.status < 500:
        return "api_usage_error"
    return {503: "overloaded_error", 504: "timeout_error"}.get(outcome.status, "internal_error")


def _entry(fault: Fault, code: str) -> dict[str, Any]:
    """One entry of a 422 list. A fault without a type of its own takes its error's code."""
    kind = code if fault.type == "value_error" and code != "invalid_request" else fault.type
    loc = [part if isinstance(part, int) else _cut(part) for part in fault.loc]
    entry: dict[str, Any] = {"type": kind, "loc": ["body", *loc], "msg": fault.msg}
    if fault.input is not None or kind.endswith("_type"):
        entry["input"] = _plain(fault.input)
    if fault.ctx:
        entry["ctx"] = {name: _plain(value) for name, value in fault.ctx.items()}
    return entry


def _plain(value: Any) -> Any:
    """The value if it is JSON, else its text: an error must render whatever it carries."""
    try:
        jsontext.dumps(value)
    except (EngineFaultError, TypeError):
        return str(value)
    return value


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LOC_TEXT else text[:_MAX_LOC_TEXT] + "…"


def _param(loc: Loc) -> str:
    """`questions[0].choices[1]`: positional ids of /v1/decisions read as indices."""
    if len(loc) > 1 and loc[0] == "questions" and isinstance(loc[1], str) and loc[1].isdecimal():
        loc = (loc[0], int(loc[1]), *loc[2:])
    return path_of(loc)
