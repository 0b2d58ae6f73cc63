"""What `prepare` hands to the executor and to `finish`: texts to compare, and who needs them.

Plain data. A *view* is one window or one sentence of the state, a *label* one text of a question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from systone.models.mini.pieces import Ids

__all__ = ["LabelText", "MiniContext", "MiniWork", "NoulRows", "OptionRows", "QuestionRows"]


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
    """Rows of a Choice's options or a Score's levels, in order; None for one without text.

    `poles`: rows of what places an option on a contrast (its description alone where it has one).
    `key`: row of the instructions of a question of degree.
    """

    rows: tuple[int | None, ...]
    poles: tuple[int | None, ...] = ()
    key: int | None = None


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
    """For `finish`: how many views are windows, how many there are, and each question's rows."""

    windows: int
    views: int
    rows: Mapping[str, QuestionRows]
