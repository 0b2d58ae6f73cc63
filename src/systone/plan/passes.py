"""Which rows run together: a batch of tries cut into passes under a budget.

Whole requests in order while they fit; a request that no pass can hold is split between rows, and
what its rows share is computed again in each pass. A row is never cut. Pure and deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from systone.plan.budget import Load, PassBudget
from systone.plan.tables import I32
from systone.plan.trie import Trie


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one pass runs of one request."""

    request: int  # index of the request in the batch
    rows: I32  # [n] indices of its rows in the request, ascending
    trie: Trie  # of those rows only


def cut_passes(tries: Sequence[Trie], budget: PassBudget) -> list[tuple[Part, ...]]:
    """Passes in the order they run. Every row of every trie is in exactly one part; a pass over
    the budget holds one row."""
    passes: list[tuple[Part, ...]] = []
    parts: list[Part] = []
    used = Load()
    for request, trie in enumerate(tries):
        for rows, piece in _pieces(trie, budget):
            wanted = used + piece.load
            if parts and not budget.holds(wanted):
                passes.append(tuple(parts))
                parts, wanted = [], piece.load
            parts.append(Part(request, rows, piece))
            used = wanted
    if parts:
        passes.append(tuple(parts))
    return passes


def _pieces(trie: Trie, budget: PassBudget) -> list[tuple[I32, Trie]]:
    """The trie whole where a pass can hold it, else tries of consecutive rows that fit."""
    if trie.num_rows == 0:
        return []
    everything = np.arange(trie.num_rows, dtype=np.int32)
    if budget.holds(trie.load):
        return [(everything, trie)]
    borders = _split_points(trie, budget)
    pieces = np.split(everything, borders)
    return [(rows, trie.restrict(rows)) for rows in pieces]


def _split_points(trie: Trie, budget: PassBudget) -> list[int]:
    """Rows that open a new pass, greedily: each takes what fits, and at least one row."""
    parent, length = trie.node_parent.tolist(), trie.node_len.tolist()
    borders: list[int] = []
    used = Load()
    present: set[int] = set()
    inner: set[int] = set()
    for row, last in enumerate(trie.row_node.tolist()):
        path = [last]
        while parent[path[-1]] >= 0:
            path.append(parent[path[-1]])
        forks = path[1:]
        wanted = used + _added(path, forks, present, inner, length)
        if used.rows and not budget.holds(wanted):
            borders.append(row)
            present, inner = set(), set()
            wanted = _added(path, forks, present, inner, length)
        present.update(path)
        inner.update(forks)
        used = wanted
    return borders


def _added(
    path: list[int], forks: list[int], present: set[int], inner: set[int], length: list[int]
) -> Load:
    """What one more row adds to a pass that already holds these nodes."""
    return Load(
        tokens=sum(length[node] for node in path if node not in present),
        rows=1,
        states=sum(1 for node in forks if node not in inner),
    )
