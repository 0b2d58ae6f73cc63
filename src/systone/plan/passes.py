"""Which rows run together: a batch of tries cut into passes under a budget.

Whole requests in order while they fit; a request that no pass can hold is split between rows, and
what its rows share is computed again in each pass. A row is never cut. Pure and deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from systone.plan.budget import Load, PassBudget
from systone.plan.layout import starts_of
from systone.plan.tables import I32
from systone.plan.trie import Trie

_COUNTED = np.arange(1024, dtype=np.int32)
_COUNTED.setflags(write=False)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one pass runs of one request."""

    request: int  # index of the request in the batch
    rows: I32  # [n] indices of its rows in the request, ascending; may be read-only
    trie: Trie  # of those rows only


def cut_passes(tries: Sequence[Trie], budget: PassBudget) -> list[tuple[Part, ...]]:
    """Passes in the order they run. Every row of every trie is in exactly one part; a pass over
    the budget holds one row."""
    if len(tries) == 1 and tries[0].num_rows and budget.holds(tries[0].load):
        return [(Part(0, _every_row(tries[0].num_rows), tries[0]),)]
    passes: list[tuple[Part, ...]] = []
    parts: list[Part] = []
    used = Load()
    for request, trie in enumerate(tries):
        for rows, piece, load in _pieces(trie, budget):
            wanted = used + load
            if parts and not budget.holds(wanted):
                passes.append(tuple(parts))
                parts, wanted = [], load
            parts.append(Part(request, rows, piece))
            used = wanted
    if parts:
        passes.append(tuple(parts))
    return passes


def _pieces(trie: Trie, budget: PassBudget) -> list[tuple[I32, Trie, Load]]:
    """The trie whole where a pass can hold it, else tries of consecutive rows that fit."""
    if trie.num_rows == 0:
        return []
    everything = _every_row(trie.num_rows)
    load = trie.load
    if budget.holds(load):
        return [(everything, trie, load)]
    borders = _split_points(trie, budget)
    pieces = np.split(everything, borders)
    cut = [trie.restrict(rows) for rows in pieces]
    return [(rows, piece, piece.load) for rows, piece in zip(pieces, cut, strict=True)]


def _every_row(count: int) -> I32:
    """[count] read-only, counting from 0."""
    return _COUNTED[:count] if count <= _COUNTED.shape[0] else np.arange(count, dtype=np.int32)


def _split_points(trie: Trie, budget: PassBudget) -> list[int]:
    """Rows that open a new pass, greedily: each takes what fits, and at least one row."""
    borders: list[int] = []
    held = _Held(trie)
    used = Load()
    for row in range(trie.num_rows):
        wanted = used + held.added(row)
        if used.rows and not budget.holds(wanted):
            borders.append(row)
            held.clear()
            wanted = held.added(row)
        held.add(row)
        used = wanted
    return borders


class _Held:
    """The nodes a pass already holds while rows are added to it."""

    def __init__(self, trie: Trie) -> None:
        self._shared = trie.shared
        self._length = trie.node_len.tolist()
        self._last = trie.row_node.tolist()
        self._readouts = trie.row_readouts.tolist()
        pointer = starts_of(trie.node_depth).tolist()
        ancestors = trie.node_ancestors.tolist()
        self._forks = [ancestors[pointer[n] : pointer[n + 1]] for n in self._last]
        self.clear()

    def clear(self) -> None:
        self._present: set[int] = set()
        self._inner: set[int] = set()

    def added(self, row: int) -> Load:
        """What one more row adds."""
        forks = self._forks[row]
        return Load(
            tokens=sum(
                self._length[n] for n in (*forks, self._last[row]) if n not in self._present
            ),
            rows=self._readouts[row],
            states=sum(1 for n in forks if n not in self._inner),
        )

    def add(self, row: int) -> None:
        if self._shared:
            self._present.update(self._forks[row])
            self._present.add(self._last[row])
            self._inner.update(self._forks[row])
