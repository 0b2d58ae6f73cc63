"""`POST /v1/systemone/permute`: one Choice asked under several orders of its options.

Body `{"request": a System One body, "question": id, "n_perm": 1..64, "seed": integer}`. The reply's
`runs`, `argmax_stable` and `spread` are named by the Kev contract (section 6); what a run holds,
and that the first one keeps the caller's order, is our own reading. Knows no engine.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from systone.errors import RequestError
from systone.protocol import jsontext, systemone
from systone.protocol.kev import DEFAULT_MODEL, answer_object
from systone.protocol.rules import WireLimits, WireRules
from systone.protocol.types import Choice, ChoiceAnswer, Decision, Dialect, Request

__all__ = ["DEFAULT_RUNS", "MAX_RUNS", "PermuteCall", "parse", "render"]

DEFAULT_RUNS = 6
MAX_RUNS = 64


@dataclass(frozen=True, slots=True)
class PermuteCall:
    """The runs of a call, each a request with that question alone."""

    question: str
    model: str | None
    requests: tuple[Request, ...]


def parse(
    data: bytes,
    *,
    dialect: Dialect,
    parts: Mapping[str, bytes],
    limits: WireLimits,
    strict: bool,
) -> PermuteCall:
    """Raises RequestError (422) for a body that isn't one, a question that isn't there or is no
    Choice."""
    body = jsontext.loads(data)
    if not isinstance(body, dict) or "request" not in body:
        raise RequestError.at(("request",), "Field required", type="missing")
    request = systemone.read(body["request"], WireRules(dialect, limits, strict), parts)
    name = body.get("question")
    question = request.questions.get(name) if isinstance(name, str) else None
    if not isinstance(name, str) or question is None:
        raise RequestError.at(("question",), "Names no question of the request")
    if not isinstance(question, Choice):
        raise RequestError.at(("question",), "Only a choice has options to permute")
    seed = _integer(body, "seed", 0, None)
    runs = _integer(body, "n_perm", DEFAULT_RUNS, MAX_RUNS)
    orders = _orders(list(question.criteria), runs, seed)
    asked = [
        replace(question, criteria={o: question.criteria[o] for o in order}) for order in orders
    ]
    return PermuteCall(
        name, request.model, tuple(replace(request, questions={name: each}) for each in asked)
    )


def render(call: PermuteCall, decisions: Sequence[Decision]) -> bytes:
    """`spread` is the widest range, over the options, of an option's probability."""
    answers: list[ChoiceAnswer] = []
    for decision in decisions:
        answer = decision.answers[call.question]
        assert isinstance(answer, ChoiceAnswer)
        answers.append(answer)
    ranges = []
    for option in answers[0].probabilities:
        shares = [answer.probabilities[option] for answer in answers]
        ranges.append(max(shares) - min(shares))
    return jsontext.dumps(
        {
            "model": call.model or DEFAULT_MODEL,
            "question": call.question,
            "runs": [
                {"order": list(answer.probabilities), **answer_object(answer)} for answer in answers
            ],
            "argmax_stable": len({answer.choice for answer in answers}) == 1,
            "spread": round(max(ranges), 4),
            "usage": {
                "input_tokens": sum(d.usage.input_tokens for d in decisions),
                "output_tokens": sum(d.usage.output_tokens for d in decisions),
            },
        }
    )


def _integer(body: dict[str, Any], name: str, default: int, most: int | None) -> int:
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not int or (most is not None and not 1 <= value <= most):
        wanted = "an integer" if most is None else f"an integer from 1 to {most}"
        raise RequestError.at((name,), f"Must be {wanted}", type="int_type")
    return value


def _orders(options: list[str], runs: int, seed: int) -> list[list[str]]:
    """The caller's order, then orders drawn with the seed."""
    draw = random.Random(seed)
    orders = [options]
    while len(orders) < runs:
        orders.append(draw.sample(options, len(options)))
    return orders
