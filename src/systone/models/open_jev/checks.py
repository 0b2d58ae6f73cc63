"""A request read by the model's contract: every slot checked, then rendered to text.

The default dialect answers what the reference refuses where the given parts can be rendered, and
notes it. With `strict` (the Open-Jev dialect) it is refused with 422 as the reference does.
Faults are found in request order; the first one is raised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from systone.errors import RequestError
from systone.models.open_jev.card import (
    MAX_LEVELS,
    MAX_OPTIONS,
    MAX_QUESTIONS,
    MAX_SEQUENCES,
    MIN_LEVELS,
)
from systone.models.open_jev.prompt import (
    QuestionText,
    candidates_text,
    noul_text,
    option_text,
    state_text,
)
from systone.models.pytext import text_of
from systone.protocol.types import Choice, Noul, Question, Request, Score

Loc = tuple[str | int, ...]
_SIDES = ("true", "false")


@dataclass(frozen=True, slots=True)
class RequestText:
    """The text of a request: its state's piece and each question's, in request order."""

    state: str
    questions: tuple[QuestionText, ...]
    notes: tuple[str, ...]  # what the reference would have refused


def read_request(request: Request, *, strict: bool) -> RequestText:
    """Raises RequestError (422) naming the first field that the contract refuses."""
    if request.assets:
        _refuse(("assets",), "this model reads text only; images are not accepted")
    count = len(request.questions)
    if not 1 <= count <= MAX_QUESTIONS:
        _refuse(("questions",), f"questions: {count} given, 1 to {MAX_QUESTIONS} allowed")
    state = _slot(request.state, ("state",), "state")
    notes: list[str] = []
    questions = []
    sequences = 0
    for name, question in request.questions.items():
        text = _Reader(name, question, strict, notes).read()
        sequences += max(1, len(text.options))
        if sequences > MAX_SEQUENCES:
            _refuse(("questions",), f"questions: more than {MAX_SEQUENCES} candidate sequences")
        questions.append(text)
    return RequestText(state_text(state), tuple(questions), tuple(notes))


@dataclass(frozen=True, slots=True)
class _Reader:
    """One question while it is checked and rendered."""

    name: str
    question: Question
    strict: bool
    notes: list[str]

    def read(self) -> QuestionText:
        asked = self._instructions()
        if isinstance(self.question, Noul):
            return self._noul(self.question, asked)
        if isinstance(self.question, Choice):
            return self._choice(self.question, asked)
        return self._score(self.question, asked)

    def _instructions(self) -> str:
        value = self.question.instructions
        if value is None:
            # The reference accepts the empty string: absent instructions read the same.
            self._beyond("instructions are required", "no instructions; read as empty text")
            return ""
        return self._text(value, "instructions")

    def _noul(self, question: Noul, asked: str) -> QuestionText:
        criteria = question.criteria
        if criteria is None:
            return noul_text(asked, None, None)
        extra = [key for key in criteria if key not in _SIDES]
        if extra:
            self._beyond(
                f"criteria may only have the keys true and false, not {extra[0]!r}",
                f"criteria key {extra[0]!r} is not read",
                "criteria",
                extra[0],
            )
        sides: dict[str, str | None] = {}
        for side in _SIDES:
            described = criteria.get(side)
            if described is None:
                self._beyond(
                    f"criteria must describe both true and false; {side} is missing",
                    f"the {side} side is not described; its line is left out",
                    "criteria",
                    side,
                )
                sides[side] = None
            else:
                sides[side] = self._text(described, "criteria", side)
        return noul_text(asked, sides["true"], sides["false"])

    def _choice(self, question: Choice, asked: str) -> QuestionText:
        count = len(question.criteria)
        if not 1 <= count <= MAX_OPTIONS:
            self._refuse(f"{count} options given, 1 to {MAX_OPTIONS} allowed", "criteria")
        options = []
        for name, described in question.criteria.items():
            name = self._text(name, "criteria", name)
            text = None if described is None else self._text(described, "criteria", name)
            options.append(option_text(name, text))
        return candidates_text(asked, options)

    def _score(self, question: Score, asked: str) -> QuestionText:
        count = len(question.criteria)
        if not 1 <= count <= MAX_LEVELS:
            self._refuse(f"{count} levels given, {MIN_LEVELS} to {MAX_LEVELS} allowed", "criteria")
        if count < MIN_LEVELS:
            self._beyond(
                f"{count} level given, {MIN_LEVELS} to {MAX_LEVELS} allowed",
                "one level only: the model was trained on two and more",
                "criteria",
            )
        levels = [self._text(level, "criteria", i) for i, level in enumerate(question.criteria)]
        return candidates_text(asked, levels)

    def _text(self, value: Any, *field: str | int) -> str:
        if isinstance(value, str) and value.isascii():
            return value  # most slots, and nothing to say about them
        where = ".".join(map(str, field))
        return _slot(value, self._loc(*field), f"question {self.name}: {where}")

    def _beyond(self, refusal: str, note: str, *field: str | int) -> None:
        """What the reference refuses and the default dialect answers."""
        if self.strict:
            self._refuse(refusal, *field)
        self.notes.append(f"question {self.name}: {note}")

    def _refuse(self, message: str, *field: str | int) -> NoReturn:
        _refuse(self._loc(*field), f"question {self.name}: {message}")

    def _loc(self, *field: str | int) -> Loc:
        return ("questions", self.name, self.question.kind, *field)


def _slot(value: Any, loc: Loc, what: str) -> str:
    if not isinstance(value, (str, list, dict)):
        _refuse(loc, f"{what} must be a string, an object or an array")
    return text_of(value, loc, sort_keys=True)


def _refuse(loc: Loc, message: str) -> NoReturn:
    raise RequestError.at(loc, message)
