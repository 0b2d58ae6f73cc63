"""Staged words of passes whose tables are kept (`plan.TablesMemo`): all but the token ids.

Known by the identity of a read-only array of theirs, which an entry holds on to. Bounded; used by
one thread. Words are int32.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from systone.plan.tables import I32, PassTables

__all__ = ["KeptWords"]

MAX_ENTRIES = 256
MAX_WORDS = 65_536  # of an entry: all of them are at most 64 MiB


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    seg_start: I32
    layout: Hashable
    words: NDArray[np.int32]


class KeptWords:
    """Least recently used entries leave first."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[int, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, tables: PassTables, layout: Hashable) -> NDArray[np.int32] | None:
        """What was kept of the same tables in the same layout; its token ids are another pass's."""
        entry = self._entries.get(id(tables.seg_start))
        if entry is None or entry.seg_start is not tables.seg_start or entry.layout != layout:
            return None
        self._entries.move_to_end(id(tables.seg_start))
        return entry.words

    def keep(self, tables: PassTables, layout: Hashable, words: NDArray[np.int32]) -> None:
        """A copy, if the tables may come again."""
        if tables.seg_start.flags.writeable or words.shape[0] > MAX_WORDS:
            return
        at = id(tables.seg_start)
        self._entries[at] = _Entry(tables.seg_start, layout, words.copy())
        self._entries.move_to_end(at)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
