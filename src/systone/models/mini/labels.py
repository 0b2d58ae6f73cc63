"""The texts of a request's questions as rows: each distinct text once, in order of appearance.

Owns which texts a question compares and how they are counted; knows no state and no vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from systone.models.mini.phrases import asks_degree, option_text, proposition
from systone.models.mini.pieces import Pieces, WordPieces, windows_of
from systone.models.mini.work import LabelText, NoulRows, OptionRows
from systone.models.pytext import text_of
from systone.protocol.types import Choice, Noul, Score, Text

__all__ = ["LabelBook", "Loc", "choice_rows", "noul_rows", "score_rows"]

Loc: TypeAlias = tuple[str | int, ...]


class LabelBook:
    """Collects rows and counts the caller's own texts."""

    def __init__(self, pieces: WordPieces, check_length: Callable[[int, Loc], None]) -> None:
        self._pieces = pieces
        self._check_length = check_length
        self._rows: dict[str, int] = {}
        self.labels: list[LabelText] = []
        self.tokens = 0

    def count(self, text: str, loc: Loc) -> Pieces:
        """Add a text that the caller sent to the usage; refuse it beyond the length limit."""
        pieces = self._pieces.read(text)
        self._check_length(len(pieces), loc)
        self.tokens += len(pieces)
        return pieces

    def counted_row(self, text: str, loc: Loc) -> int | None:
        """`row` of a text that is compared exactly as the caller sent it, counted once."""
        return self.row(text, self.count(text, loc))

    def row(
        self,
        text: str,
        pieces: Pieces | None = None,
        *,
        is_key: bool = False,
        is_statement: bool = False,
    ) -> int | None:
        """The row of a text, added if it is new; None for a text without a letter or digit.

        `pieces`: the text's own, where they are known already.
        """
        if (known := self._rows.get(text)) is not None:
            label = self.labels[known]
            self.labels[known] = replace(
                label,
                is_key=label.is_key or is_key,
                is_statement=label.is_statement or is_statement,
            )
            return known
        pieces = pieces or self._pieces.read(text)
        if pieces.blank:
            return None
        self._rows[text] = len(self.labels)
        self.labels.append(LabelText(text, windows_of(pieces), is_key, is_statement))
        return self._rows[text]


def choice_rows(book: LabelBook, question: Choice, loc: Loc) -> OptionRows:
    """One row per option; a row for the instructions only where they ask for a degree.

    Other instructions are counted but not compared: they say the same of every option.
    """
    instructions = _instructions(book, question.instructions, loc)
    rows, poles = [], []
    for name, description in question.criteria.items():
        at = (*loc, "criteria", name)
        described = None if description is None else text_of(description, at)
        text = option_text(name, described)
        rows.append(book.counted_row(text, at))
        poles.append(described if described and described.strip() else name)
    if instructions is None or not asks_degree(instructions):
        return OptionRows(tuple(rows))
    return OptionRows(tuple(rows), tuple(book.row(p) for p in poles), _key(book, instructions))


def score_rows(book: LabelBook, question: Score, loc: Loc) -> OptionRows:
    """One row per level, by its text alone, and one for the instructions."""
    instructions = _instructions(book, question.instructions, loc)
    rows = []
    for i, level in enumerate(question.criteria):
        at = (*loc, "criteria", i)
        rows.append(book.counted_row(text_of(level, at), at))
    if instructions is None:
        return OptionRows(tuple(rows))
    return OptionRows(tuple(rows), tuple(rows), _key(book, instructions))


def noul_rows(book: LabelBook, question: Noul, loc: Loc) -> NoulRows:
    """The described sides, and the instructions as a statement and a key phrase."""
    instructions = _instructions(book, question.instructions, loc)
    sides = {}
    for side, description in (question.criteria or {}).items():
        at = (*loc, "criteria", side)
        if side in ("true", "false") and description is not None:
            sides[side] = book.counted_row(text_of(description, at), at)
    true, false = sides.get("true"), sides.get("false")
    if instructions is None or (true is not None and false is not None):
        return NoulRows(true=true, false=false)
    asked = proposition(instructions)
    return NoulRows(
        sentence=book.row(asked.sentence, is_statement=True),
        key=book.row(asked.key, is_key=True),
        true=true,
        false=false,
    )


def _key(book: LabelBook, instructions: str) -> int | None:
    return book.row(proposition(instructions).key, is_key=True)


def _instructions(book: LabelBook, value: Text | None, loc: Loc) -> str | None:
    """The instructions' text, counted; None when there is nothing to read."""
    if value is None:
        return None
    text = text_of(value, (*loc, "instructions"))
    book.count(text, (*loc, "instructions"))
    return text if text.strip() else None
