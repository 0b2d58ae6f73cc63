"""Text pieces to scored rows: each distinct piece is tokenised once, then joined.

A row's path is `state | question | option` (Noul: `state | rest`), cut the same way for a single
row as in any company, so its segments never depend on its neighbours. Units are tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from systone.models.open_jev.checks import RequestText
from systone.models.open_jev.prompt import CHAT_PREFIX, NOUL_TAIL, OPTION_TAIL, whole_prompts
from systone.models.piece_cache import PieceCache
from systone.plan import I32, Row, Segment


class Tokenizer(Protocol):
    """Text to ids; special tokens inside the text are parsed as special tokens."""

    def encode(self, text: str) -> I32:
        """The whole text at once, nothing remembered."""
        ...

    def ids(self, texts: Sequence[str]) -> list[bytes]:
        """int32 in memory order, of each."""
        ...


class RowMaker:
    """Makes rows with one call of the tokenizer per request, for what is new in it. Thread-safe."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._pieces = PieceCache()
        fixed = tokenizer.ids([CHAT_PREFIX, OPTION_TAIL, NOUL_TAIL])
        self._prefix, self._option_tail, self._noul_tail = fixed

    def rows(self, text: RequestText) -> list[Row]:
        """The rows of a request, in question order and within it in option order."""
        ids = self._tokenised(text)
        state = Segment.joined((self._prefix, ids[text.state]))
        # distinct by text, so that equal options of a request are one object (and one key)
        segments: dict[str, Segment] = {}
        rows = []
        for index, question in enumerate(text.questions):
            head = segments.get(question.head)
            if head is None:
                tail = b"" if question.options else self._noul_tail
                head = segments[question.head] = Segment.joined((ids[question.head], tail))
            if not question.options:
                rows.append(Row((state, head), index))
            for option in question.options:
                end = segments.get(option)
                if end is None:
                    end = segments[option] = Segment.joined((ids[option], self._option_tail))
                rows.append(Row((state, head, end), index))
        return rows

    def mismatch(self, text: RequestText, rows: Sequence[Row]) -> str | None:
        """The first whole prompt whose ids are not those of its row, or None: the proof that the
        pieces were cut at token boundaries."""
        prompts = [p for q in text.questions for p in whole_prompts(text.state, q)]
        for prompt, row in zip(prompts, rows, strict=True):
            whole = self._tokenizer.encode(prompt)
            if not np.array_equal(whole, np.concatenate([s.tokens for s in row.path])):
                return prompt
        return None

    def _tokenised(self, text: RequestText) -> dict[str, bytes]:
        """Ids of every piece. A state is not kept."""
        asked = [piece for q in text.questions for piece in (q.head, *q.options)]
        ids = self._pieces.find(asked)
        new = [piece for piece in dict.fromkeys(asked) if piece not in ids]
        *fresh, state = self._tokenizer.ids([*new, text.state])
        made = dict(zip(new, fresh, strict=True))
        self._pieces.keep(made)
        ids.update(made)
        ids[text.state] = state
        return ids
