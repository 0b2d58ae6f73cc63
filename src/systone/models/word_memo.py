"""Token ids of the words of texts: most words of a request were seen before.

Words met before are looked up (`word_split` says where a text may be cut). A text with few new
pieces has those tokenised apart; one that is mostly new is tokenised whole, and its pieces are
learnt from where its tokens start. Ids depend on the piece alone, so a hit changes nothing but
time. Bounded; thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from systone.models.word_split import pieces_of, resolve

__all__ = ["MAX_CHARS", "MAX_PIECES", "TextEncoder", "WordMemo"]

MAX_PIECES = 65_536  # kept; a full memo starts anew
MAX_CHARS = 32  # of a kept piece; 65,536 of these and their ids are at most about 20 MB
FEW = 0.25  # share of a text's characters that are better tokenised apart

I32 = NDArray[np.int32]
Ids = bytes  # int32 in memory order


class TextEncoder(Protocol):
    """Ids of texts, the same whenever they are asked for."""

    def encode_apart(self, texts: Sequence[str]) -> list[I32]:
        """int32 ids of each."""
        ...

    def encode_whole(self, texts: Sequence[str]) -> list[tuple[I32, I32]]:
        """int32 ids of each, and the character each token starts at."""
        ...


class WordMemo:
    """Keeps at most `max_pieces` pieces."""

    def __init__(self, encoder: TextEncoder, max_pieces: int = MAX_PIECES) -> None:
        self._encoder = encoder
        self._max_pieces = max_pieces
        # nothing ever leaves these very dicts: a full memo starts others
        self._first: dict[str, Ids] = {}  # of words without a space before them
        self._later: dict[str, Ids] = {}  # of words behind a space, by the word alone
        self._other: dict[str, Ids] = {}  # of pieces that begin or end in whitespace otherwise

    def __len__(self) -> int:
        return len(self._first) + len(self._later) + len(self._other)

    def encode(self, texts: Sequence[str]) -> list[I32]:
        """One int32 array a text, in order; they are read-only."""
        split = [self._look_up(text) for text in texts]
        new: dict[str, None] = {}
        cold: dict[str, None] = {}
        for text, pieces in zip(texts, split, strict=True):
            missing = [piece for piece in pieces if isinstance(piece, str)]
            if len(missing) > 1 and sum(map(len, missing)) > FEW * len(text):
                cold[text] = None
            elif missing:
                new.update(dict.fromkeys(missing))
        fresh = self._apart(list(new)) if new else {}
        whole = self._whole(list(cold)) if cold else {}
        return [
            np.frombuffer(
                whole[text]
                if text in whole
                else b"".join([fresh[p] if isinstance(p, str) else p for p in pieces]),
                np.int32,
            )
            for text, pieces in zip(texts, split, strict=True)
        ]

    def _look_up(self, text: str) -> list[Ids | str]:
        """The text as ids, and as pieces whose ids are not kept."""
        parts = text.split(" ")
        found = [self._first.get(parts[0]), *map(self._later.get, parts[1:])]
        if None not in found:
            return found  # type: ignore[return-value]
        return [p if isinstance(p, bytes) else self._piece(p) for p in resolve(parts, found)]

    def _piece(self, piece: str) -> Ids | str:
        found = self._later.get(piece[1:]) if piece[:1] == " " else self._first.get(piece)
        return self._other.get(piece, piece) if found is None else found

    def _apart(self, pieces: Sequence[str]) -> dict[str, Ids]:
        encoded = self._encoder.encode_apart(pieces)
        found = {piece: ids.tobytes() for piece, ids in zip(pieces, encoded, strict=True)}
        self._keep(found.items())
        return found

    def _whole(self, texts: Sequence[str]) -> dict[str, Ids]:
        encoded = self._encoder.encode_whole(texts)
        for text, (ids, starts) in zip(texts, encoded, strict=True):
            # where a normaliser may move characters, positions are not trusted
            if text.isascii():
                pieces = pieces_of(text)
                ends = np.cumsum([len(piece) for piece in pieces])
                borders = [0, *np.searchsorted(starts, ends).tolist()]
                self._keep(
                    (piece, ids[a:b].tobytes())
                    for piece, (a, b) in zip(pieces, pairwise(borders), strict=True)
                )
        return {text: ids.tobytes() for text, (ids, _) in zip(texts, encoded, strict=True)}

    def _keep(self, found: Iterable[tuple[str, Ids]]) -> None:
        first: dict[str, Ids] = {}
        later: dict[str, Ids] = {}
        other: dict[str, Ids] = {}
        for piece, ids in islice(found, self._max_pieces):
            if len(piece) > MAX_CHARS:
                continue
            word = piece[1:] if piece[:1] == " " else piece
            if word == "" or word.strip() != word:
                other[piece] = ids
            else:
                (first if word is piece else later)[word] = ids
        if len(self) + len(first) + len(later) + len(other) > self._max_pieces:
            self._first, self._later, self._other = first, later, other
        else:
            self._first.update(first)
            self._later.update(later)
            self._other.update(other)
