"""Token ids of the short parts of texts: most words of a request were seen before.

A text is split where its parts, tokenised apart, give the whole text's ids (`qwen_cuts`). Parts met
before are looked up. A text with few new parts has those tokenised apart; one that is mostly new is
tokenised whole, and its words are learnt from where its tokens start. Ids depend on the part alone,
so a hit changes nothing but time. Bounded; thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from systone.models.qwen_cuts import split_words

__all__ = ["MAX_CHARS", "MAX_WORDS", "TextEncoder", "WordMemo"]

MAX_WORDS = 65_536  # kept parts; a full memo starts anew
MAX_CHARS = 32  # of a kept part; 65,536 of these and their ids are at most about 20 MB
FEW = 0.25  # share of a text's characters that are better tokenised apart

I32 = NDArray[np.int32]


class TextEncoder(Protocol):
    """Ids of texts, the same whenever they are asked for."""

    def encode_apart(self, texts: Sequence[str]) -> list[I32]:
        """int32 ids of each."""
        ...

    def encode_whole(self, texts: Sequence[str]) -> list[tuple[I32, I32]]:
        """int32 ids of each, and the character each token starts at."""
        ...


class WordMemo:
    """Keeps at most `max_words` parts."""

    def __init__(self, encoder: TextEncoder, max_words: int = MAX_WORDS) -> None:
        self._encoder = encoder
        self._max_words = max_words
        self._known: dict[str, bytes] = {}  # ids as int32 in memory order

    def __len__(self) -> int:
        return len(self._known)

    def encode(self, texts: Sequence[str]) -> list[I32]:
        """One int32 array a text, in order; they are read-only."""
        known = self._known  # nothing ever leaves this very dict: a full memo starts another
        split = [split_words(text) for text in texts]
        new: dict[str, None] = {}
        cold: dict[str, list[str]] = {}
        for text, words in zip(texts, split, strict=True):
            missing = [word for word in words if word not in known]
            if not missing:
                continue
            if len(words) > 1 and sum(map(len, missing)) > FEW * len(text):
                cold[text] = words
            else:
                new.update(dict.fromkeys(missing))
        fresh = self._apart(list(new)) if new else {}
        whole = self._whole(cold) if cold else {}
        return [
            np.frombuffer(
                whole[text]
                if text in whole
                else b"".join([fresh[w] if w in fresh else known[w] for w in words]),
                np.int32,
            )
            for text, words in zip(texts, split, strict=True)
        ]

    def _apart(self, words: Sequence[str]) -> dict[str, bytes]:
        encoded = self._encoder.encode_apart(words)
        found = {word: ids.tobytes() for word, ids in zip(words, encoded, strict=True)}
        self._keep(found.items())
        return found

    def _whole(self, texts: dict[str, list[str]]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for (text, words), (ids, starts) in zip(
            texts.items(), self._encoder.encode_whole(list(texts)), strict=True
        ):
            found[text] = ids.tobytes()
            # where a normaliser may move characters, positions are not trusted
            if text.isascii():
                ends = np.cumsum([len(word) for word in words])
                borders = [0, *np.searchsorted(starts, ends).tolist()]
                self._keep(
                    (word, ids[a:b].tobytes())
                    for word, (a, b) in zip(words, pairwise(borders), strict=True)
                )
        return found

    def _keep(self, found: Iterable[tuple[str, bytes]]) -> None:
        short = {word: ids for word, ids in found if len(word) <= MAX_CHARS}
        known = self._known
        if len(known) + len(short) > self._max_words:
            known = self._known = {}
        known.update(islice(short.items(), self._max_words))
