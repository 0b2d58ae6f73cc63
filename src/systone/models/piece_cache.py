"""Token ids of prompt pieces that come again: questions and options of a caller rarely change.

Bounded in entries and in the length of a text, so in bytes; ids depend on the text alone, so a hit
changes nothing but time. Thread-safe. States are not kept: they rarely come twice. Ids are int32 in
memory order.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping

MAX_PIECES = 4096
MAX_CHARS = 1024  # of a kept text; 4096 of these and their ids are at most about 32 MB

__all__ = ["MAX_CHARS", "MAX_PIECES", "PieceCache"]


class PieceCache:
    """Least recently used pieces leave first."""

    def __init__(self, max_pieces: int = MAX_PIECES) -> None:
        self._max_pieces = max_pieces
        self._ids: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, texts: Iterable[str]) -> dict[str, bytes]:
        """The ids of those texts that are here."""
        found = {}
        with self._lock:
            for text in texts:
                ids = self._ids.get(text)
                if ids is not None:
                    self._ids.move_to_end(text)
                    found[text] = ids
        return found

    def keep(self, pieces: Mapping[str, bytes]) -> None:
        """Remember the short ones."""
        with self._lock:
            for text, ids in pieces.items():
                if len(text) <= MAX_CHARS:
                    self._ids[text] = ids
                    self._ids.move_to_end(text)
            while len(self._ids) > self._max_pieces:
                self._ids.popitem(last=False)
