"""Pieces of texts with their token ids, by what a piece begins and ends with.

A word behind a space is kept by the word alone, so that a text split at its spaces finds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["MAX_CHARS", "Ids", "Known", "Pieces"]

MAX_CHARS = 32  # of a kept piece

Ids = bytes  # int32 in memory order


class Known(dict[str, Ids]):
    """Ids by text; what is not here reads as None, so that many are looked up in one call."""

    def __missing__(self, text: str) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Pieces:
    """Ids of words without a space before them, of words behind one, and of all other pieces."""

    first: Known = field(default_factory=Known)
    later: Known = field(default_factory=Known)
    other: Known = field(default_factory=Known)

    @classmethod
    def of(cls, found: Iterable[tuple[str, Ids]]) -> Pieces:
        """Those that are short enough to be kept."""
        made = cls()
        for piece, ids in found:
            if len(piece) > MAX_CHARS:
                continue
            word = piece[1:] if piece[:1] == " " else piece
            if word == "" or word.strip() != word:
                made.other[piece] = ids
            else:
                (made.first if word is piece else made.later)[word] = ids
        return made

    def __len__(self) -> int:
        return len(self.first) + len(self.later) + len(self.other)
