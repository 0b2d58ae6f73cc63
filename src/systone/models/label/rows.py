"""A request to rows: which question each row asks, with which labels, in which order of options.

Owns the check of a request against the model's limits and the texts of its slots. Knows no ids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from systone.errors import RequestError
from systone.models.label.labels import Label, Labels
from systone.models.label.options import Orders
from systone.models.label.presets import Listing, Preset, Text
from systone.models.pytext import text_of
from systone.protocol.types import Choice, Noul, Question, Request
from systone.protocol.types import Text as Slot

__all__ = ["AskedQuestion", "AskedRow", "RowPlanner"]

Loc = tuple[str | int, ...]
ISOLATED = "{question}\nProposed answer: {level}\nDoes the proposed answer fit?"
_LEVEL_NUMBER = re.compile(r"^\s*-?\d+\s*:\s*")


@dataclass(frozen=True, slots=True)
class AskedRow:
    """One row: its text, the option shown in each place, and the label of that place.

    `level`: of an isolated Score row, whose options are no and yes."""

    text: Text
    order: tuple[int, ...]
    labels: tuple[Label, ...]
    level: int | None = None


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """The rows of one question; a Noul's options are (false, true)."""

    num_options: int
    rows: tuple[AskedRow, ...]


@dataclass(frozen=True, slots=True)
class _Options:
    """A question's options by index: what they are called and how they are described."""

    names: tuple[str, ...]
    texts: tuple[str | None, ...]
    base: tuple[int, ...]  # the order the format shows them in


class RowPlanner:
    """Pure and thread-safe."""

    def __init__(self, preset: Preset, labels: Labels, orders: Orders) -> None:
        self._preset = preset
        self._labels = labels
        self._orders = orders

    def plan(self, request: Request) -> list[AskedQuestion]:
        """The rows of every question, in request order. Raises RequestError (422) naming the first
        field that can't be asked."""
        state = self._text(request.state, ("state",), strip=False)
        state = state or self._preset.words.empty_state
        return [
            self._question(state, name, question) for name, question in request.questions.items()
        ]

    def _question(self, state: str, name: str, question: Question) -> AskedQuestion:
        asked = self._instructions(name, question)
        options = self._options(name, question)
        count = len(options.names)
        limit = len(self._labels.letters)
        if count > limit:
            raise RequestError.at(
                ("questions", name, question.kind, "criteria"),
                f"question {name}: {count} options, this model has labels for {limit}",
                type="too_long",
                limit=limit,
            )
        if question.kind == "score" and self._preset.isolated_levels:
            return AskedQuestion(count, tuple(self._isolated(state, asked, options)))
        rows = [
            self._row(state, question, asked, options, order)
            for order in _orders(options.base, self._orders)
        ]
        return AskedQuestion(count, tuple(rows))

    def _row(
        self,
        state: str,
        question: Question,
        asked: str,
        options: _Options,
        order: tuple[int, ...],
        level: int | None = None,
    ) -> AskedRow:
        labels = self._labels.of(self._preset.label_set(question.kind), order)
        listing = Listing(
            kind=question.kind,
            question=asked,
            names=tuple(options.names[i] for i in order),
            texts=tuple(options.texts[i] for i in order),
            labels=tuple(label.text for label in labels),
        )
        return AskedRow(self._preset.write(state, listing), order, labels, level)

    def _isolated(self, state: str, asked: str, options: _Options) -> list[AskedRow]:
        sides = _Options(self._preset.words.sides, (None, None), self._base_of_sides())
        rows = []
        for level, text in enumerate(options.texts):
            shown = _LEVEL_NUMBER.sub("", text or "")
            question = ISOLATED.format(question=asked, level=shown)
            rows += [
                self._row(state, Noul(), question, sides, order, level)
                for order in _orders(sides.base, self._orders)
            ]
        return rows

    def _instructions(self, name: str, question: Question) -> str:
        default = self._preset.words.question[question.kind]
        if question.instructions is None:
            return default
        loc = ("questions", name, question.kind, "instructions")
        return self._text(question.instructions, loc) or default

    def _options(self, name: str, question: Question) -> _Options:
        loc: Loc = ("questions", name, question.kind, "criteria")
        words = self._preset.words
        if isinstance(question, Noul):
            given = question.criteria or {}
            sides = [given.get(side) for side in ("false", "true")]
            texts = tuple(
                own if value is None else self._text(value, (*loc, side)) or own
                for value, side, own in zip(sides, ("false", "true"), words.side_texts, strict=True)
            )
            return _Options(words.sides, texts, self._base_of_sides())
        if isinstance(question, Choice):
            names = tuple(question.criteria)
            described = tuple(
                None if value is None else self._text(value, (*loc, key)) or None
                for key, value in question.criteria.items()
            )
            for key in names:
                text_of(key, (*loc, key))
            return _Options(names, described, tuple(range(len(names))))
        levels = tuple(self._text(v, (*loc, i)) for i, v in enumerate(question.criteria))
        names = tuple(words.level.format(i) for i in range(len(levels)))
        return _Options(names, levels, tuple(range(len(levels))))

    def _base_of_sides(self) -> tuple[int, ...]:
        return (1, 0) if self._preset.yes_first else (0, 1)

    def _text(self, value: Slot, loc: Loc, *, strip: bool = True) -> str:
        text = text_of(value, loc)
        if isinstance(value, str):
            return text.strip() if strip and self._preset.stripped else text
        return json.dumps(value, ensure_ascii=False, indent=2) if self._preset.indented else text


def _orders(base: tuple[int, ...], orders: Orders) -> Sequence[tuple[int, ...]]:
    """The orders a question is asked in; never the same one twice."""
    if orders == "none" or len(base) < 2:
        return [base]
    if orders == "reverse":
        return [base, base[::-1]]
    return [base[i:] + base[:i] for i in range(len(base))]
