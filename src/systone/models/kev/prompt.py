"""A request as the text pieces of a Kev's rows: the state, then per question its instructions and
its options. Nothing separates the pieces but delimiters, which are ids and never text.

Source: the Kev contract, section 2. Knows no tokenizer and no limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from systone.errors import RequestError
from systone.models.kev.dates import with_date_facts
from systone.models.kev.render import text_of
from systone.protocol.types import Choice, Json, Noul, Question, Request

__all__ = [
    "DECIDE",
    "OPTION_END",
    "OPTION_START",
    "QUESTION",
    "STATE",
    "QuestionText",
    "RequestText",
    "read_request",
]

# Tokens of the backbone that are reused as delimiters; their ids are looked up by text.
STATE = "<|fim_prefix|>"
QUESTION = "<|fim_middle|>"
OPTION_START = "<|box_start|>"
OPTION_END = "<|box_end|>"
DECIDE = "<|fim_suffix|>"

MAX_OPTIONS = 255
MAX_LEVELS = 255

Loc = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class QuestionText:
    """One branch, before escaping: options in the order they are scored."""

    instructions: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RequestText:
    """All pieces of a request, questions in request order."""

    state: str
    questions: tuple[QuestionText, ...]


def read_request(request: Request, *, date_facts: bool = False) -> RequestText:
    """`date_facts`: the state says how far apart its dates are (see `dates`). Raises RequestError
    (422) naming the first field, in request order, that can't be read."""
    if request.assets:
        raise RequestError.at(("assets",), "this model reads text only; images are not accepted")
    if not request.questions:
        raise RequestError.at(("questions",), "questions: at least one is needed")
    state = text_of(request.state, ("state",))
    if date_facts:
        state = text_of(with_date_facts(request.state, state), ("state",))
    questions = tuple(_question(name, asked) for name, asked in request.questions.items())
    return RequestText(state, questions)


def _question(name: str, question: Question) -> QuestionText:
    loc: Loc = ("questions", name, question.kind)
    instructions = text_of(question.instructions, (*loc, "instructions"))
    if isinstance(question, Noul):
        sides = question.criteria or {}
        options = [
            _described(shown, sides.get(side), (*loc, "criteria", side))
            for shown, side in (("no", "false"), ("yes", "true"))
        ]
        return QuestionText(instructions, tuple(options))
    where = (*loc, "criteria")
    count = len(question.criteria)
    if isinstance(question, Choice):
        if not 1 <= count <= MAX_OPTIONS:
            raise _counted(name, where, f"{count} options given, 1 to {MAX_OPTIONS} allowed")
        options = [
            _described(text_of(option, (*where, option)), described, (*where, option))
            for option, described in question.criteria.items()
        ]
        return QuestionText(instructions, tuple(options))
    if not 1 <= count <= MAX_LEVELS:
        raise _counted(name, where, f"{count} levels given, 1 to {MAX_LEVELS} allowed")
    return QuestionText(instructions, _levels(question.criteria, where))


def _levels(levels: Sequence[Json], where: Loc) -> tuple[str, ...]:
    return tuple(text_of(level, (*where, i)) for i, level in enumerate(levels))


def _described(name: str, description: Json, loc: Loc) -> str:
    """The name alone only for null and the empty string: `{}` leaves `name: `."""
    if description is None or description == "":
        return name
    return f"{name}: {text_of(description, loc)}"


def _counted(name: str, loc: Loc, message: str) -> RequestError:
    return RequestError.at(loc, f"question {name}: {message}")
