"""Staged words of passes whose tables are kept (`plan.TablesMemo`): all but the token ids.

Known by the identity of a read-only array of theirs, which an entry holds on to. Kept are the runs
of words that were written, not the room between them. Bounded; used by one thread. Words are int32.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from systone.plan.tables import I32, PassTables

__all__ = ["Kept", "KeptWords"]

MAX_ENTRIES = 256
MAX_WORDS = 65_536  # of an entry: all of them are at most 64 MiB
_NEAR = 1024  # so many words are copied sooner than another run is begun


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Words of one pass in one layout."""

    seg_start: I32
    layout: Hashable
    runs: tuple[tuple[slice, NDArray[np.int32]], ...]

    def write(self, words: NDArray[np.int32]) -> None:
        for run, kept in self.runs:
            words[run] = kept


class KeptWords:
    """Least recently used entries leave first."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[int, Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, tables: PassTables, layout: Hashable) -> Kept | None:
        """What was kept of the same tables in the same layout; its token ids are another pass's."""
        at = id(tables.seg_start)
        entry = self._entries.get(at)
        if entry is None or entry.seg_start is not tables.seg_start or entry.layout != layout:
            return None
        self._entries.move_to_end(at)
        return entry

    def keep(
        self,
        tables: PassTables,
        layout: Hashable,
        words: NDArray[np.int32],
        written: Sequence[tuple[int, int]],
    ) -> None:
        """A copy of the words `written`, (first, end) of each array, if the tables may come
        again."""
        if tables.seg_start.flags.writeable:
            return
        runs = _runs(written)
        if sum(run.stop - run.start for run in runs) > MAX_WORDS:
            return
        at = id(tables.seg_start)
        copies = tuple((run, words[run].copy()) for run in runs)
        self._entries[at] = Kept(tables.seg_start, layout, copies)
        self._entries.move_to_end(at)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)


def _runs(written: Sequence[tuple[int, int]]) -> list[slice]:
    """The words of the arrays, ascending, neighbours together."""
    runs: list[slice] = []
    for first, end in sorted(written):
        if runs and first - runs[-1].stop <= _NEAR:
            runs[-1] = slice(runs[-1].start, max(end, runs[-1].stop))
        elif end > first:
            runs.append(slice(first, end))
    return runs
