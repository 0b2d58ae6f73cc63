"""What `prepare` hands to the executor and to `finish`: texts to compare, and who needs them.

Plain data. A *view* is one window or one sentence of the state, a *label* one text of a question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from systone.models.mini.pieces import Ids

__all__ = [
    "BACKGROUND",
    "CONTRAST",
    "CONTRAST_WEIGHT",
    "OPINION",
    "VIEWS",
    "LabelText",
    "MiniContext",
    "MiniWork",
    "NoulRows",
    "OptionRows",
    "QuestionRows",
]

# Columns of a read-out row; the views' similarities follow from VIEWS on, windows first.
BACKGROUND: Final = 0  # the label's background similarity
CONTRAST_WEIGHT: Final = 1  # how much the label's nearest contrast bears on it (key phrases only)
CONTRAST: Final = 2  # what that contrast says of the state
OPINION: Final = 3  # the Noul scorer's score of the label as a statement (statements only)
VIEWS: Final = 4


@dataclass(frozen=True, slots=True)
class LabelText:
    """`windows`: its pieces. `is_key`: look for a contrast. `is_statement`: ask the Noul scorer."""

    text: str
    windows: tuple[Ids, ...]
    is_key: bool = False
    is_statement: bool = False


@dataclass(frozen=True, slots=True)
class MiniWork:
    """Views in read-out order (none for a state with nothing to read), labels in row order."""

    state: str
    windows: tuple[Ids, ...]
    sentences: tuple[Ids, ...]
    labels: tuple[LabelText, ...]

    @property
    def views(self) -> tuple[Ids, ...]:
        return self.windows + self.sentences


@dataclass(frozen=True, slots=True)
class OptionRows:
    """Rows of a Choice's options or a Score's levels, in order; None for one without text."""

    rows: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class NoulRows:
    """Rows of a Noul's texts, None where it has none.

    `sentence` and `key` come from the instructions; `true` and `false` are its described sides.
    """

    sentence: int | None = None
    key: int | None = None
    true: int | None = None
    false: int | None = None


QuestionRows = OptionRows | NoulRows


@dataclass(frozen=True, slots=True)
class MiniContext:
    """For `finish`: how many views are windows, and each question's rows, by question id."""

    windows: int
    views: int
    rows: Mapping[str, QuestionRows]
