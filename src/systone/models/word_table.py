"""Ids of short words behind a space, for all words of long texts at once, by array arithmetic.

A dictionary's look-up visits four places in memory one after the other and waits for each; here a
word is a row of keys and a row of ids, and the rows of all words are fetched together. Keys are
whole words in UTF-8, so nothing is found by mistake. Any number of threads may look words up while
others add some. P parts of texts between their spaces.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_BYTES", "MAX_IDS", "WordTable"]

MAX_BYTES = 16  # of a word: two machine words
MAX_IDS = 4  # of a word
_ID_BYTES = 4

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
Missed = list[tuple[bytes, str]]

_BITS = 17
_SLOTS = 1 << _BITS  # 4 MiB; two thirds full with what a memo is taught and learns at most
_PROBES = 8
_FEW = 24  # parts: so few not found yet are sooner looked up one by one, elsewhere
_NOTHING = _SLOTS + _PROBES - 1  # the row behind the last that a word may lie in
_SHIFT, _WORD = 64 - _BITS, 1 << 64
_ODD_LOW, _ODD_HIGH = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F

# Neither byte is ever part of UTF-8. A key whose halves come from an empty row and from a word that
# is being written is therefore none either.
_FILL, _EMPTY = b"\xff", b"\xfe"
# what fills the two halves of a key behind a word of so many bytes; too long a word has the key of
# an empty one, which is never added
_FILLS = np.frombuffer(
    b"".join(bytes(n) + _FILL * (MAX_BYTES - n) for n in (*range(MAX_BYTES + 1), 0)), np.uint64
).reshape(-1, 2)
_KEY = np.dtype((np.void, MAX_BYTES))
_EMPTY_KEY = _EMPTY * MAX_BYTES
_halves = struct.Struct("=QQ").unpack
_SPACE = 32


class WordTable:
    """Open addressing; what finds no place near its own is not kept."""

    def __init__(self) -> None:
        rows = _NOTHING + 1
        self._keys: U64 = np.full((rows, 2), _halves(_EMPTY_KEY), np.uint64)
        self._ids = np.full((rows, MAX_IDS), -1, np.int32)
        self._adding = threading.Lock()

    def copy(self) -> WordTable:
        """Another of the same words."""
        made = WordTable.__new__(WordTable)
        made._keys, made._ids = self._keys.copy(), self._ids.copy()
        made._adding = threading.Lock()
        return made

    def add(self, words: Iterable[tuple[str, bytes]]) -> None:
        """Keep words that hold no space, each with its ids (int32 in memory order), as far as they
        are short enough and there is room."""
        with self._adding:
            for word, ids in words:
                name = word.encode("utf-8", "surrogatepass")
                if 0 < len(name) <= MAX_BYTES and 0 < len(ids) <= MAX_IDS * _ID_BYTES:
                    self._put(name.ljust(MAX_BYTES, _FILL), np.frombuffer(ids, np.int32))

    def _put(self, key: bytes, ids: NDArray[np.int32]) -> None:
        low, high = _halves(key)
        first = ((high * _ODD_HIGH ^ low) * _ODD_LOW % _WORD) >> _SHIFT  # as `_slots`
        for row in range(first, first + _PROBES):
            there = self._keys[row].tobytes()
            if there == key:
                return
            if there == _EMPTY_KEY:
                self._ids[row, : ids.size] = ids  # before the key: who finds that reads them
                self._keys[row] = low, high
                return

    def find(self, texts: Sequence[str]) -> list[Missed] | None:
        """Of one text or more the parts between spaces that were not found, in order, each with the
        ids of the words between it and the one before. A text's first part and its last always are
        among them. None: there are spaces in a row, between which nothing is ever found."""
        coded = [text.encode("utf-8", "surrogatepass") for text in texts]
        data = b" ".join([*coded, _FILL * MAX_BYTES])
        (end,) = (np.frombuffer(data, np.uint8) == _SPACE).nonzero()
        start = np.empty_like(end)
        start[0] = 0
        np.add(end[:-1], 1, out=start[1:])
        last = end.searchsorted([*accumulate((len(text) + 1 for text in coded), initial=-1)][1:])
        size = end - start
        if end.size - np.count_nonzero(size) > 2 * len(texts):
            return None
        row, missed = self._rows(data, start, size)
        missed[last] = missed[0] = missed[last[:-1] + 1] = True
        (at,) = missed.nonzero()
        row[at] = _NOTHING
        ids = self._ids.take(row, axis=0, mode="clip").reshape(-1)
        (filled,) = (ids >= 0).nonzero()
        known = ids.take(filled).tobytes()
        cuts = (filled.searchsorted(at * MAX_IDS) * _ID_BYTES).tolist()
        found: list[Missed] = []
        parts: Missed = []
        done, closing = 0, set(end[last].tolist())
        for cut, begin, stop in zip(cuts, start[at].tolist(), end[at].tolist(), strict=True):
            parts.append((known[done:cut], data[begin:stop].decode("utf-8", "surrogatepass")))
            done = cut
            if stop in closing:
                found.append(parts)
                parts = []
        return found

    def _rows(self, data: bytes, start: I64, size: I64) -> tuple[I64, NDArray[np.bool_]]:
        """[P] each part's row, and whether it has none."""
        # the bytes from each place on, as an array that is never made
        strings = np.ndarray((len(data) - MAX_BYTES + 1,), _KEY, data, strides=(1,))
        key = strings[start].view(np.uint64).reshape(-1, 2)
        key |= _FILLS.take(size, axis=0, mode="clip")
        row = _slots(key[:, 0], key[:, 1])
        missed = self._differ(row, key)
        (left,) = missed.nonzero()
        for _ in range(_PROBES - 1):
            if left.size <= _FEW:
                break
            row[left] += 1
            left = left[self._differ(row[left], key[left])]
        missed[:] = False
        missed[left] = True
        return row, missed

    def _differ(self, row: I64, key: U64) -> NDArray[np.bool_]:
        # "clip" spares a check of every place: none is outside
        there = self._keys.take(row, axis=0, mode="clip")
        differs: NDArray[np.bool_] = there[:, 0] != key[:, 0]
        differs |= there[:, 1] != key[:, 1]
        return differs


def _slots(low: U64, high: U64) -> I64:
    """Where each key is looked for first."""
    mixed = high * np.uint64(_ODD_HIGH)
    mixed ^= low
    mixed *= np.uint64(_ODD_LOW)
    mixed >>= np.uint64(_SHIFT)
    return mixed.view(np.int64)
