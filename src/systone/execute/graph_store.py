"""Captured graphs by key, bounded in count and bytes, least recently used out first. No device.

A key that can't be captured, or was evicted, runs eagerly; after a few misses an evicted one is
captured again. Every outcome is counted. What a graph is, its maker knows.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

MISSES_BEFORE_RECAPTURE = 3


class CaptureError(Exception):
    """Capturing failed and the device still works: the work runs eagerly."""


class Graph(Protocol):
    """What a capture leaves."""

    @property
    def num_bytes(self) -> int: ...

    def replay(self) -> None: ...

    def release(self) -> None: ...


Capture = Callable[[Callable[[], object]], Graph]  # makes the graph of a run of launches


class GraphStore(Generic[K]):
    """`capture` makes the graph of a key, or raises CaptureError. Used by one thread."""

    def __init__(self, capture: Callable[[K], Graph], max_count: int, max_bytes: int) -> None:
        self._capture = capture
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._held: OrderedDict[K, Graph] = OrderedDict()
        self._misses: Counter[K] = Counter()
        self._known: set[K] = set()
        self._failed: set[K] = set()
        self.counts: Counter[str] = Counter()

    def fill(self, keys: Iterable[K]) -> None:
        """Capture in the given order while there is room; nothing is evicted. Later keys may be
        captured on demand."""
        for key in keys:
            self._known.add(key)
            if not self._full():
                self._add(key)

    def get(self, key: K) -> Graph | None:
        """The key's graph, to be replayed now; None: run eagerly. May capture, so whatever the
        launches read is staged after this."""
        graph = self._held.get(key) or self._again(key)
        if graph is not None:
            self._held.move_to_end(key)
            self.counts["used"] += 1
        return graph

    def evict(self, key: K) -> None:
        self._held.pop(key).release()
        self.counts["evicted"] += 1

    def clear(self) -> None:
        for graph in self._held.values():
            graph.release()
        self._held.clear()

    @property
    def num_bytes(self) -> int:
        return sum(graph.num_bytes for graph in self._held.values())

    def __contains__(self, key: K) -> bool:
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)

    def describe(self) -> Mapping[str, int]:
        names = ("captured", "used", "failed", "evicted", "missed")
        counts = {name: self.counts[name] for name in names}
        return {"graphs": len(self), "bytes": self.num_bytes, **counts}

    def _again(self, key: K) -> Graph | None:
        """A known key that is missed often enough takes the place of the least recently used."""
        if key not in self._known or key in self._failed:
            return None
        self.counts["missed"] += 1
        self._misses[key] += 1
        if self._misses[key] < MISSES_BEFORE_RECAPTURE:
            return None
        while self._held and self._full():
            self.evict(next(iter(self._held)))
        del self._misses[key]
        return self._add(key)

    def _add(self, key: K) -> Graph | None:
        try:
            graph = self._capture(key)
        except CaptureError as error:
            self._failed.add(key)
            self.counts["failed"] += 1
            log.warning("no graph for %s, it runs eagerly: %s", key, error)
            return None
        self._held[key] = graph
        self.counts["captured"] += 1
        return graph

    def _full(self) -> bool:
        return len(self._held) >= self._max_count or self.num_bytes >= self._max_bytes
