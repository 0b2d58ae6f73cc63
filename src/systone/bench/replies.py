"""What a valid reply to a request is, and reading one. Knows no HTTP.

A server may round its probabilities to four decimals, so they may sum to 1 within half a unit of
that place per option, and no more.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

__all__ = ["Expectation", "InvalidReplyError", "Read", "answers_digest"]

_SLACK = 1e-6
_ROUNDING = 5e-5  # of one probability with four decimals


class InvalidReplyError(Exception):
    """A reply that isn't the answer to its request; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Read:
    """The parts of a valid reply that are kept."""

    answers: Mapping[str, Any]
    input_tokens: int


@dataclass(frozen=True, slots=True)
class Expectation:
    """(id, kind, options) of every question: option names, or level numbers, or none."""

    questions: tuple[tuple[str, str, tuple[str, ...]], ...]

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Expectation:
        return cls(
            tuple(
                (name, question["type"], _options(question))
                for name, question in request["questions"].items()
            )
        )

    def read(self, body: bytes) -> Read:
        """Parse and validate a reply's body. Raises InvalidReplyError."""
        try:
            reply = json.loads(body, parse_constant=_no_constant)
        except ValueError as error:
            raise InvalidReplyError(f"not JSON: {error}") from None
        answers = reply.get("answers") if isinstance(reply, dict) else None
        if not isinstance(answers, dict):
            raise InvalidReplyError("no answers")
        if answers.keys() != {name for name, _, _ in self.questions}:
            raise InvalidReplyError("the answers are not those of the questions asked")
        for name, kind, options in self.questions:
            _check(name, answers[name], kind, options)
        usage = reply.get("usage")
        tokens = usage.get("input_tokens") if isinstance(usage, dict) else None
        if type(tokens) is not int or tokens < 0:
            raise InvalidReplyError("usage.input_tokens is not a count")
        return Read(answers, tokens)

    def sample(self) -> dict[str, Any]:
        """A valid reply without a model behind it: every option equally likely."""
        answers = {name: _even(kind, options) for name, kind, options in self.questions}
        usage = {"input_tokens": 0, "output_tokens": 0}
        return {"model": "none", "answers": answers, "usage": usage}


def answers_digest(answers: Mapping[str, Any]) -> str:
    """The same for equal answers, whatever the order of their keys; every digit counts."""
    text = json.dumps(answers, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _options(question: Mapping[str, Any]) -> tuple[str, ...]:
    if question["type"] == "choice":
        return tuple(question["criteria"])
    if question["type"] == "score":
        return tuple(str(level) for level in range(len(question["criteria"])))
    return ()


def _check(name: str, answer: Any, kind: str, options: Sequence[str]) -> None:
    if not isinstance(answer, dict) or answer.get("type") != kind:
        raise InvalidReplyError(f"{name}: not a {kind} answer")
    if kind == "noul":
        _number(name, "noul", answer.get("noul"), 0.0, 1.0)
        return
    probabilities = answer.get("probabilities")
    if not isinstance(probabilities, dict) or probabilities.keys() != set(options):
        raise InvalidReplyError(f"{name}: probabilities of other options than those asked")
    values = [_number(name, f"probability of {o}", probabilities[o], 0.0, 1.0) for o in options]
    if abs(math.fsum(values) - 1.0) > _SLACK + _ROUNDING * len(values):
        raise InvalidReplyError(f"{name}: the probabilities sum to {math.fsum(values)!r}")
    _number(name, "confidence", answer.get("confidence"), 0.0, 1.0)
    if kind == "score":
        _number(name, "score", answer.get("score"), 0.0, float(len(options) - 1))
    elif answer.get("choice") not in options or probabilities[answer["choice"]] < max(values):
        raise InvalidReplyError(f"{name}: the choice is not the most probable option")


def _number(name: str, field: str, value: Any, low: float, high: float) -> float:
    fits = type(value) in (int, float) and low - _SLACK <= value <= high + _SLACK
    if not fits:  # also for NaN, which compares false
        raise InvalidReplyError(f"{name}: {field} is {value!r}, not {low:g} to {high:g}")
    return float(value)


def _even(kind: str, options: Sequence[str]) -> dict[str, Any]:
    if kind == "noul":
        return {"type": "noul", "noul": 0.5}
    answer: dict[str, Any] = {
        "type": kind,
        "probabilities": dict.fromkeys(options, 1.0 / len(options)),
        "confidence": 0.0,
    }
    if kind == "choice":
        return {**answer, "choice": options[0]}
    legend = {option: f"level {option}" for option in options}
    return {**answer, "score": (len(options) - 1) / 2, "legend": legend}


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")
