"""Text pieces to scored rows `state | branch`: each distinct piece is tokenised once, by itself.

A branch is read at every end of an option and at its last token. Owns the limits that are counted
in tokens. Units are tokens, delimiters included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from systone.errors import ConfigError, RequestError
from systone.models.kev.prompt import (
    DECIDE,
    OPTION_END,
    OPTION_START,
    QUESTION,
    STATE,
    RequestText,
)
from systone.models.kev.render import escape
from systone.plan import Row, Segment
from systone.plan.tables import ID_BYTES

__all__ = ["RowLimits", "RowMaker", "Rows", "Tokenizer"]


class Tokenizer(Protocol):
    """Text to ids; added tokens inside the text become their own ids."""

    def ids(self, texts: Sequence[str]) -> list[bytes]:
        """int32 in memory order, of each."""
        ...


@dataclass(frozen=True, slots=True)
class RowLimits:
    """Longest state and longest row; `truncate`: a longer state is cut to its first tokens."""

    state: int
    row: int
    truncate: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """One row a question, in request order. `state_tokens` is the state's length before a cut."""

    rows: tuple[Row, ...]
    state_tokens: int
    state_tokens_used: int

    @property
    def truncated(self) -> bool:
        return self.state_tokens_used < self.state_tokens

    @property
    def input_tokens(self) -> int:
        """The state once and every branch: what the contract bills."""
        branches = sum(row.path[1].size for row in self.rows)
        return self.state_tokens_used + branches


class RowMaker:
    """Makes rows with one call of the tokenizer per request. Thread-safe."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raises ConfigError for a tokenizer that lacks a delimiter."""
        self._tokenizer = tokenizer
        delimiters = (STATE, QUESTION, OPTION_START, OPTION_END, DECIDE)
        found = tokenizer.ids(delimiters)
        for text, ids in zip(delimiters, found, strict=True):
            if len(ids) != ID_BYTES:
                raise ConfigError(f"the tokenizer has no token {text}, which this model needs")
        self._state, self._question, self._start, self._end, self._decide = found

    def rows(self, text: RequestText, names: Sequence[str], limits: RowLimits) -> Rows:
        """Raises RequestError for a state over its limit, or for the first branch, in request
        order, whose row is over the row's. `names`: the questions' ids, for the errors."""
        pieces = [escape(text.state)]
        for question in text.questions:
            pieces += map(escape, (question.instructions, *question.options))
        distinct = list(dict.fromkeys(pieces))
        ids = dict(zip(distinct, self._tokenizer.ids(distinct), strict=True))
        every = map(ids.__getitem__, pieces)
        state = self._state + next(every)
        size = used = len(state) // ID_BYTES
        if size > limits.state:
            if not limits.truncate:
                raise _too_long(size, limits.state)
            state, used = state[: limits.state * ID_BYTES], limits.state
        parent = Segment.joined((state,))
        rows = []
        for index, question in enumerate(text.questions):
            branch, readouts = self._branch(next(every), list(islice(every, len(question.options))))
            if used + branch.size > limits.row:
                raise _branch_too_long(names[index], branch.size, used, limits.row)
            rows.append(Row((parent, branch), index, readouts))
        return Rows(tuple(rows), size, used)

    def _branch(
        self, instructions: bytes, options: Sequence[bytes]
    ) -> tuple[Segment, tuple[int, ...]]:
        """The branch, and where its options and the branch itself end."""
        parts = [self._question, instructions]
        length = 1 + len(instructions) // ID_BYTES
        readouts = []
        for option in options:
            parts += (self._start, option, self._end)
            length += 2 + len(option) // ID_BYTES
            readouts.append(length - 1)
        parts.append(self._decide)
        return Segment.joined(parts), (*readouts, length)


def _too_long(found: int, limit: int) -> RequestError:
    """The reference's own words, the name of its switch included."""
    return RequestError.at(
        ("state",),
        f"state is {found:,} tokens, over the {limit:,}-token limit (the <state> token included): "
        "shorten the document or split it across requests; or start the server with "
        f"KEV_TRUNCATE_STATES=1 to read only its first {limit:,} tokens (responses then say "
        "truncated: true)",
        type="max_tokens_exceeded",
        code="max_tokens_exceeded",
        exact="max_tokens_exceeded",
    )


def _branch_too_long(name: str, branch: int, state: int, limit: int) -> RequestError:
    return RequestError.at(
        ("questions", name),
        f"branch too long: {branch} tokens with a {state}-token state (row limit {limit})",
        type="max_tokens_exceeded",
        code="max_tokens_exceeded",
        exact="max_tokens_exceeded",
    )
