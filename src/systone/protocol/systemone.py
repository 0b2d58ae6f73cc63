"""`POST /v1/systemone`: bytes to a Request, a Decision to bytes.

Owns the envelope (contract sections 1.1 and 2.1) and lists every fault of a body at once, in body
order. `model` may be absent or null: the server's default answers. Unknown fields are ignored
unless read strictly (`jev-exact` refuses them at the top level, as the hosted API does).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from systone.errors import Fault, RequestError
from systone.protocol import jsontext
from systone.protocol.assets import read_assets, unmentioned
from systone.protocol.faults import listed, unknown_fields
from systone.protocol.kev import DEFAULT_MODEL, reply_object
from systone.protocol.questions import in_body_order, read_questions
from systone.protocol.rules import WireLimits, WireRules
from systone.protocol.shapes import body_shape, check
from systone.protocol.sound import sound_body
from systone.protocol.types import (
    Answer,
    Asset,
    ChoiceAnswer,
    Decision,
    Dialect,
    Json,
    NoulAnswer,
    Question,
    Request,
    ScoreAnswer,
)

__all__ = ["parse", "read", "render"]

_FIELDS = ("model", "state", "questions", "assets")
# Media fields of other servers' dialects. Dropping one would answer about a state without it.
_FOREIGN_MEDIA = ("images", "files", "audio", "videos")
_NO_PARTS: Mapping[str, bytes] = MappingProxyType({})


def parse(
    data: bytes,
    *,
    dialect: Dialect,
    parts: Mapping[str, bytes] = _NO_PARTS,
    limits: WireLimits = WireLimits(),  # noqa: B008 - frozen
    strict: bool = False,
) -> Request:
    """The request in `data` (JSON text) and, for a multipart body, its other `parts` by name.

    Raises RequestError (422) with every fault in body order; a fault of the JSON text stands
    alone. `limits` are the wire's: a model's own are checked by its adapter."""
    rules = WireRules(dialect, limits, strict)
    return read(jsontext.loads(data), rules, parts)


def read(body: Json, rules: WireRules, parts: Mapping[str, bytes] = _NO_PARTS) -> Request:
    """As `parse`, from the parsed JSON value; the request keeps `body`'s containers."""
    faults = [] if sound_body(body, rules) else check(body_shape(rules), body, (), rules)
    if type(body) is not dict:
        raise RequestError(faults)
    refused = {fault.loc[0] for fault in faults}
    state, model = body.get("state"), body.get("model")
    questions: dict[str, Question] = {}
    if "questions" not in refused:
        questions = read_questions(body["questions"], rules, faults)
    assets: dict[str, Asset] = {}
    if "assets" not in refused and ("assets" in body or parts):
        assets = read_assets(body.get("assets") or {}, parts, rules, faults)
    # A question that can't be read may be the one that mentions an asset.
    if assets and not any(fault.loc[0] == "questions" for fault in faults):
        faults += unmentioned(assets, _texts(state, questions))
    if len(body) > len(_FIELDS) or not body.keys() <= _FIELD_SET:
        faults += _unknown_fields(body, rules)
    if faults:
        raise RequestError(listed(in_body_order(faults, body, depth=0)))
    return Request(state, questions, model, assets, rules.dialect)  # type: ignore[arg-type]


_FIELD_SET = frozenset(_FIELDS)


def _unknown_fields(body: dict[str, Any], rules: WireRules) -> list[Fault]:
    foreign = [f for f in _FOREIGN_MEDIA if body.get(f) not in (None, [], {}, "")]
    faults = [
        Fault(
            (field,),
            "unsupported_field",
            f"`{field}` is not read by this server and is not ignored; send images as `assets`",
            exact="api_usage_error",
        )
        for field in foreign
    ]
    if rules.strict or rules.dialect == "jev-exact":
        known = (*_FIELDS, *foreign)
        faults += unknown_fields((), body, known, exact="api_usage_error")
    return faults


def _texts(state: Json, questions: Mapping[str, Question]) -> list[Json]:
    """Everything of a request that may mention an asset."""
    texts: list[Json] = [state]
    for question in questions.values():
        criteria = question.criteria
        texts.append(question.instructions)
        texts += criteria.values() if isinstance(criteria, Mapping) else list(criteria or ())
    return texts


def render(
    decision: Decision, *, dialect: Dialect, extras: bool, asked_model: str | None = None
) -> bytes:
    """The 200 body, answers in request order, numbers as the model gave them.

    `extras` adds `x_systone`; the open-jev dialect adds `metadata`; the kev dialect has a wording
    of its own and echoes `asked_model`. Raises EngineFaultError for a number that is not finite."""
    usage = decision.usage
    if dialect == "kev":
        body = reply_object(decision, asked_model or DEFAULT_MODEL)
        if extras:
            body["x_systone"] = dict(decision.extras)
        return jsontext.dumps(body)
    body = {
        "model": decision.model,
        "answers": {qid: _answer(answer) for qid, answer in decision.answers.items()},
        "usage": {
            "input_tokens": int(usage.input_tokens),
            "output_tokens": int(usage.output_tokens),
        },
    }
    if dialect == "open-jev":
        body["metadata"] = dict(decision.metadata)
    if extras:
        body["x_systone"] = dict(decision.extras)
    return jsontext.dumps(body)


def _answer(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, NoulAnswer):
        return {"type": "noul", "noul": answer.noul}
    if isinstance(answer, ChoiceAnswer):
        return {
            "type": "choice",
            "choice": answer.choice,
            "probabilities": dict(answer.probabilities),
            "confidence": answer.confidence,
        }
    assert isinstance(answer, ScoreAnswer)
    return {
        "type": "score",
        "score": answer.score,
        "legend": {str(i): level for i, level in enumerate(answer.legend)},
        "probabilities": {str(i): p for i, p in enumerate(answer.probabilities)},
        "confidence": answer.confidence,
    }
