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
from systone.models.qwen_cuts import cut_text
from systone.plan import I32, Row, Segment


class Tokenizer(Protocol):
    """Text to ids; special tokens inside the text are parsed as special tokens."""

    def encode(self, text: str) -> I32:
        """The whole text at once, nothing remembered."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[I32]: ...


class RowMaker:
    """Makes rows with one call of the tokenizer per request, for what is new in it. Thread-safe."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._pieces = PieceCache()
        fixed = tokenizer.encode_batch([CHAT_PREFIX, OPTION_TAIL, NOUL_TAIL])
        self._prefix, self._option_tail, self._noul_tail = fixed

    def rows(self, text: RequestText) -> list[Row]:
        """The rows of a request, in question order and within it in option order."""
        state_pieces = cut_text(text.state)
        ids = self._tokenised(state_pieces, text)
        state = Segment.of(np.concatenate([self._prefix, *(ids[p] for p in state_pieces)]))
        # distinct by text, so that equal options of a request are one object (and one key)
        segments: dict[str, Segment] = {}
        rows = []
        for index, question in enumerate(text.questions):
            if not question.options:
                rest = _ended(segments, ids, question.head, self._noul_tail)
                rows.append(Row((state, rest), index))
                continue
            head = segments.get(question.head)
            if head is None:
                head = segments[question.head] = Segment.of(ids[question.head])
            for option in question.options:
                end = _ended(segments, ids, option, self._option_tail)
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

    def _tokenised(self, state_pieces: list[str], text: RequestText) -> dict[str, I32]:
        asked = dict.fromkeys(
            piece for question in text.questions for piece in (question.head, *question.options)
        )
        ids = self._pieces.find(asked)
        new = [piece for piece in asked if piece not in ids]
        state = [piece for piece in dict.fromkeys(state_pieces) if piece not in asked]
        encoded = self._tokenizer.encode_batch([*new, *state])
        fresh = dict(zip(new, encoded, strict=False))
        self._pieces.keep(fresh)
        return ids | fresh | dict(zip(state, encoded[len(new) :], strict=True))


def _ended(segments: dict[str, Segment], ids: dict[str, I32], text: str, tail: I32) -> Segment:
    segment = segments.get(text)
    if segment is None:
        segment = segments[text] = Segment.of(np.concatenate([ids[text], tail]))
    return segment
