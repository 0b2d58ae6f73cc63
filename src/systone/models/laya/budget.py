"""Token ids to one row under the model's budgets, and the account of what was cut.

Owns the arithmetic of the budgets; knows no text. All lengths are tokens. Source: the Laya
contract, section 3 (each option 48, the question what is left of the head, the state the rest).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["OPTION_TOKENS", "SPECIAL_TOKENS", "Budgets", "Built", "Cut", "Specials", "build_row"]

OPTION_TOKENS = 48  # of an option's text, its marker not counted
SPECIAL_TOKENS = 4  # of a row, markers not counted: [CLS] and three [SEP]
_LEAST_OPTION = 4  # its marker counted
_LEAST_QUESTION = 8
_COMFORT = 16  # left for the question before all options are cut further


@dataclass(frozen=True, slots=True)
class Budgets:
    """`max_len`: of a whole row; `head_max_len`: of question and options, markers included.

    `keep_tail`: a state that is too long keeps its end, not its beginning."""

    max_len: int
    head_max_len: int
    keep_tail: bool = False

    @property
    def max_options(self) -> int:
        """Options that fit a row whatever their texts: each may take the least cap, after the
        least question. More fit where texts are shorter than that."""
        return (self.max_len - 2 - _LEAST_QUESTION - 1) // _LEAST_OPTION + 1


@dataclass(frozen=True, slots=True)
class Specials:
    """Ids of the special tokens."""

    cls: int
    sep: int
    mask: int


@dataclass(frozen=True, slots=True)
class Cut:
    """What a row left out. `option_cap`: the cap all options were put under, marker included, or
    None; `distinct_options`: how many still differ after it."""

    question: int
    options: int
    state: int
    option_cap: int | None
    distinct_options: int

    @property
    def truncated(self) -> bool:
        return bool(self.question or self.options or self.state)


@dataclass(frozen=True, slots=True)
class Built:
    """`markers`: places of the options' markers in `ids`; fewer than the options when the row is
    too short for them, which can't be answered."""

    ids: list[int]
    markers: list[int]
    cut: Cut


def build_row(
    question: Sequence[int],
    options: Sequence[Sequence[int]],
    state: Sequence[int],
    budgets: Budgets,
    specials: Specials,
) -> Built:
    """One row from the ids of its texts."""
    marked = [[specials.mask, *option[:OPTION_TOKENS]] for option in options]
    cap = None
    if budgets.head_max_len - sum(map(len, marked)) < _COMFORT:
        cap = max(_LEAST_OPTION, (budgets.head_max_len - _COMFORT) // len(marked))
        marked = [option[:cap] for option in marked]
    asked = question[: max(_LEAST_QUESTION, budgets.head_max_len - sum(map(len, marked)))]
    ids = [specials.cls, *asked, specials.sep]
    markers = []
    for option in marked:
        markers.append(len(ids))
        ids += option
    ids.append(specials.sep)
    room = max(0, budgets.max_len - len(ids) - 1)
    kept = state[max(0, len(state) - room) :] if budgets.keep_tail else state[:room]
    ids = [*ids, *kept, specials.sep][: budgets.max_len]
    cut = Cut(
        question=len(question) - len(asked),
        options=sum(map(len, options)) + len(options) - sum(map(len, marked)),
        state=len(state) - len(kept),
        option_cap=cap,
        distinct_options=len(set(map(tuple, marked))),
    )
    return Built(ids, [m for m in markers if m < budgets.max_len], cut)
