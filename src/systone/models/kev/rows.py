"""Text pieces to scored rows `state | branch`: each distinct piece is tokenised once, by itself.

A branch is read at every end of an option and at its last token. Owns the limits that are counted
in tokens. Units are tokens, delimiters included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from systone.errors import ConfigError, RequestError
from systone.models.kev.prompt import (
    DECIDE,
    OPTION_END,
    OPTION_START,
    QUESTION,
    STATE,
    QuestionText,
    RequestText,
)
from systone.models.kev.render import escape
from systone.models.qwen_cuts import cut_text
from systone.plan import I32, Row, Segment

__all__ = ["RowLimits", "RowMaker", "Rows", "Tokenizer"]


class Tokenizer(Protocol):
    """Text to ids; added tokens inside the text become their own ids."""

    def encode_batch(self, texts: Sequence[str]) -> list[I32]: ...


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
        branches = sum(row.path[1].tokens.size for row in self.rows)
        return self.state_tokens_used + branches


class RowMaker:
    """Makes rows with one call of the tokenizer per request. Thread-safe."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raises ConfigError for a tokenizer that lacks a delimiter."""
        self._tokenizer = tokenizer
        delimiters = (STATE, QUESTION, OPTION_START, OPTION_END, DECIDE)
        found = tokenizer.encode_batch(delimiters)
        for text, ids in zip(delimiters, found, strict=True):
            if ids.size != 1:
                raise ConfigError(f"the tokenizer has no token {text}, which this model needs")
        self._state, self._question, self._start, self._end, self._decide = found

    def rows(self, text: RequestText, names: Sequence[str], limits: RowLimits) -> Rows:
        """Raises RequestError for a state over its limit, or for the first branch, in request
        order, whose row is over the row's. `names`: the questions' ids, for the errors."""
        state_pieces = cut_text(escape(text.state))
        ids = self._tokenised(state_pieces, text)
        state = np.concatenate([self._state, *(ids[piece] for piece in state_pieces)])
        used = state
        if state.size > limits.state:
            if not limits.truncate:
                raise _too_long(state.size, limits.state)
            used = state[: limits.state]
        parent = Segment.of(used)
        rows = []
        for index, question in enumerate(text.questions):
            branch, readouts = self._branch(question, ids)
            if used.size + branch.size > limits.row:
                raise _branch_too_long(names[index], branch.size, used.size, limits.row)
            rows.append(Row((parent, Segment.of(branch)), index, readouts))
        return Rows(tuple(rows), state.size, used.size)

    def _branch(self, question: QuestionText, ids: dict[str, I32]) -> tuple[I32, tuple[int, ...]]:
        """The branch's tokens, and where its options and the branch itself end."""
        parts = [self._question, ids[escape(question.instructions)]]
        length = 1 + parts[1].size
        readouts = []
        for option in question.options:
            tokens = ids[escape(option)]
            parts += [self._start, tokens, self._end]
            length += tokens.size + 2
            readouts.append(length - 1)
        parts.append(self._decide)
        return np.concatenate(parts), (*readouts, length)

    def _tokenised(self, state_pieces: Sequence[str], text: RequestText) -> dict[str, I32]:
        pieces = dict.fromkeys(state_pieces)
        for question in text.questions:
            pieces[escape(question.instructions)] = None
            pieces.update((escape(option), None) for option in question.options)
        return dict(zip(pieces, self._tokenizer.encode_batch(list(pieces)), strict=True))


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
