"""`POST /v1/decisions`: one route, two contracts, told apart by the body.

`input` -> OpenAI's form: positional questions and answers (sections 5.1 and 5.4).
`state` -> System One's form, read and answered exactly as `/v1/systemone`.
Cache fields and `safety_identifier` are accepted and have no effect. How items become a state is
told in `decisions_input`. Errors keep the form of the body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jiter

from systone.errors import EngineFaultError, RequestError
from systone.protocol import jsontext, systemone
from systone.protocol.decisions_input import read_input
from systone.protocol.decisions_parts import Reading
from systone.protocol.decisions_questions import Asked, is_sglang, read_questions
from systone.protocol.errors import Form
from systone.protocol.faults import listed, missing, not_a_dict, not_a_string, unknown_fields
from systone.protocol.questions import in_body_order
from systone.protocol.rules import WireLimits, WireRules
from systone.protocol.types import (
    Answer,
    ChoiceAnswer,
    Decision,
    Dialect,
    Json,
    NoulAnswer,
    Question,
    Request,
    ScoreAnswer,
    Text,
)

__all__ = ["DecisionsCall", "form_of", "parse", "render"]

_FIELDS = (
    "model",
    "input",
    "questions",
    "prompt_cache_key",
    "prompt_cache_options",
    "safety_identifier",
)

_SGLANG = (
    "These questions are in SGLang's form (id, question, options). Send OpenAI's form with `input`"
    " (questions of type predicate, choice or score, with instructions, choices or levels), or"
    " System One's with `state` (questions by id)."
)


@dataclass(frozen=True, slots=True)
class DecisionsCall:
    """What a reply needs beside the decision: the form and, for OpenAI's, what was asked."""

    form: Form
    dialect: Dialect = "default"
    asked: tuple[Asked, ...] = ()


def form_of(data: bytes) -> Form:
    """The form of a body that was, or would be, refused: System One's only when it looks so."""
    try:
        return _form(jiter.from_json(data, catch_duplicate_keys=False, cache_mode="none"))
    except ValueError:
        return "openai"


def _form(body: Json) -> Form:
    if type(body) is not dict or "input" in body:
        return "openai"
    if "state" in body or type(body.get("questions")) is dict:
        return "systemone"
    return "openai"


def parse(
    data: bytes,
    *,
    dialect: Dialect,
    parts: Mapping[str, bytes] = MappingProxyType({}),
    limits: WireLimits = WireLimits(),  # noqa: B008 - frozen
    strict: bool = False,
) -> tuple[Request, DecisionsCall]:
    """The request, and what its reply is rendered with.

    Raises RequestError with every fault in body order; `form_of(data)` says in which form to
    answer it. `parts` are those of a multipart body in System One's form."""
    body = jsontext.loads(data)
    if type(body) is dict and is_sglang(body.get("questions")):
        raise RequestError.at(("questions",), _SGLANG, type="foreign_dialect", status=400)
    if _form(body) == "systemone":
        request = systemone.read(body, WireRules(dialect, limits, strict), parts)
        return request, DecisionsCall("systemone", dialect)
    if type(body) is not dict:
        raise RequestError([not_a_dict((), body)], status=400)
    return _read_openai(body, parts, dialect, limits, strict)


def _read_openai(
    body: dict[str, Any],
    parts: Mapping[str, bytes],
    dialect: Dialect,
    limits: WireLimits,
    strict: bool,
) -> tuple[Request, DecisionsCall]:
    reading = Reading(strict)
    if "state" in body:
        msg = "Send `input` (OpenAI's form) or `state` (System One's form), not both"
        reading.refuse(("state",), msg, "ambiguous_form")
    model = body.get("model")
    if model is not None and type(model) is not str:
        reading.faults.append(not_a_string(("model",), model))
    state: Text = ""
    questions: dict[str, Question] = {}
    asked: tuple[Asked, ...] = ()
    if "input" in body:
        state = read_input(body["input"], reading)
    else:
        reading.faults.append(missing(("input",)))
    if "questions" in body:
        questions, asked = read_questions(body["questions"], limits, reading)
    else:
        reading.faults.append(missing(("questions",)))
    if strict:
        reading.faults += unknown_fields((), body, (*_FIELDS, "state"))
    if parts:
        msg = "OpenAI's form takes no multipart parts; send images as data: URLs"
        reading.refuse((), msg, "unexpected_parts")
    if reading.faults:
        faults = in_body_order(reading.faults, body, depth=0)
        raise RequestError(listed(faults), status=400)
    request = Request(state, questions, model, reading.assets, dialect)
    return request, DecisionsCall("openai", dialect, asked)


def render(decision: Decision, call: DecisionsCall, *, extras: bool) -> bytes:
    """The 200 body in the call's form, answers in question order.

    Raises EngineFaultError for a number that is not finite."""
    if call.form == "systemone":
        return systemone.render(decision, dialect=call.dialect, extras=extras)
    answers = [decision.answers.get(str(i)) for i in range(len(call.asked))]
    if len(answers) != len(decision.answers) or None in answers:
        raise EngineFaultError("The decision does not answer each question once.")
    usage = decision.usage
    body: dict[str, Any] = {
        "model": decision.model,
        "answers": [
            _answer(answer, asked) for answer, asked in zip(answers, call.asked, strict=True)
        ],
        "usage": {
            "input_tokens": int(usage.input_tokens),
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": int(usage.output_tokens),
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": int(usage.input_tokens) + int(usage.output_tokens),
        },
    }
    if extras:
        body["x_systone"] = dict(decision.extras)
    return jsontext.dumps(body)


def _answer(answer: Answer | None, asked: Asked) -> dict[str, Any]:
    if isinstance(answer, NoulAnswer):
        return {"type": "predicate", "name": asked.name, "probability": answer.noul}
    if isinstance(answer, ChoiceAnswer):
        return {
            "type": "choice",
            "name": asked.name,
            "choice": asked.options[answer.choice],
            "probabilities": [
                {"value": value, "probability": answer.probabilities[name]}
                for name, value in asked.options.items()
            ],
            "confidence": answer.confidence,
        }
    assert isinstance(answer, ScoreAnswer)
    return {
        "type": "score",
        "name": asked.name,
        "score": answer.score,
        "probabilities": [
            {"value": i, "label": label, "probability": p}
            for i, (label, p) in enumerate(zip(asked.labels, answer.probabilities, strict=True))
        ],
        "confidence": answer.confidence,
    }
