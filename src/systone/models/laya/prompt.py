"""The texts of a Laya prompt: the question's line and one text per option.

    [CLS] {kind} question: {instructions} [SEP]
    [MASK] {option 0} [MASK] {option 1} ... [SEP] {state} [SEP]

Owns the wording; knows no tokens and no budgets. Source: the Laya contract, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from systone.errors import RequestError
from systone.models.pytext import text_of
from systone.protocol.types import Choice, Noul, Question, Request, Score

__all__ = ["MAX_LEVELS", "MAX_OPTIONS", "QuestionText", "RequestText", "read_request"]

MAX_OPTIONS = 255
MAX_LEVELS = 32
_SIDES = {  # false first, always: the order the head was trained on
    "false": "no, the statement does not hold",
    "true": "yes, the statement holds",
}


@dataclass(frozen=True, slots=True)
class QuestionText:
    """`asked`: the question's line; `options`: in the order of the probabilities."""

    asked: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RequestText:
    """A request as texts; `notes` say what the reference would have refused."""

    state: str
    questions: Mapping[str, QuestionText]
    notes: tuple[str, ...]


def read_request(request: Request) -> RequestText:
    """Raises RequestError (422) for the first slot, in request order, that can't be read."""
    if request.assets:
        raise RequestError.at(
            ("assets",),
            f"This model reads text only and takes no images; it got {len(request.assets)}.",
            type="unsupported_input",
            code="unsupported_input",
        )
    state = text_of(request.state, ("state",))
    notes: list[str] = []
    questions = {id: _read(id, question, notes) for id, question in request.questions.items()}
    return RequestText(state, questions, tuple(notes))


def _read(id: str, question: Question, notes: list[str]) -> QuestionText:
    loc = ("questions", id, question.kind)
    if question.instructions is None:
        notes.append(f"question {id}: no instructions; read as empty text")
        asked = ""
    else:
        asked = text_of(question.instructions, (*loc, "instructions"))
    return QuestionText(
        f"{question.kind} question: {asked}", _options(id, question, (*loc, "criteria"), notes)
    )


def _options(
    id: str, question: Question, loc: tuple[str | int, ...], notes: list[str]
) -> tuple[str, ...]:
    if isinstance(question, Choice):
        _check_count(len(question.criteria), MAX_OPTIONS, "options", loc)
        return tuple(
            _named(name, _described(text, (*loc, name))) for name, text in question.criteria.items()
        )
    if isinstance(question, Score):
        _check_count(len(question.criteria), MAX_LEVELS, "levels", loc)
        return tuple(
            f"level {i}: {text_of(level, (*loc, i))}" for i, level in enumerate(question.criteria)
        )
    return _sides(id, question, loc, notes)


def _sides(
    id: str, question: Noul, loc: tuple[str | int, ...], notes: list[str]
) -> tuple[str, ...]:
    criteria = question.criteria or {}
    notes.extend(
        f"question {id}: criteria key {key!r} is not read" for key in criteria if key not in _SIDES
    )
    return tuple(
        f"{side}: {_described(criteria.get(side), (*loc, side)) or default}"
        for side, default in _SIDES.items()
    )


def _described(value: Any, loc: tuple[str | int, ...]) -> str:
    """An option's description; empty text where there is none."""
    return "" if value is None else text_of(value, loc)


def _named(name: str, described: str) -> str:
    return f"{name}: {described}" if described else name


def _check_count(count: int, limit: int, what: str, loc: tuple[str | int, ...]) -> None:
    if not 1 <= count <= limit:
        raise RequestError.at(loc, f"{count} {what} given, 1 to {limit} allowed")
