"""Graphs by key: bounds, order, failures, eviction and capturing again."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from systone.execute.graph_store import MISSES_BEFORE_RECAPTURE, CaptureError, GraphStore


@dataclass
class FakeGraph:
    key: int
    num_bytes: int = 10
    released: bool = False
    log: list[int] = field(default_factory=list)

    def replay(self) -> None:
        assert not self.released
        self.log.append(self.key)

    def release(self) -> None:
        self.released = True


@dataclass
class Maker:
    broken: set[int] = field(default_factory=set)
    made: list[FakeGraph] = field(default_factory=list)

    def __call__(self, key: int) -> FakeGraph:
        if key in self.broken:
            raise CaptureError(f"operation not permitted for {key}")
        self.made.append(FakeGraph(key))
        return self.made[-1]


def test_keys_are_captured_in_order_until_the_count_is_reached() -> None:
    maker = Maker()
    store = GraphStore(maker, max_count=2, max_bytes=1000)
    store.fill([4, 3, 2])
    assert [graph.key for graph in maker.made] == [4, 3]
    assert store.get(2) is None
    assert store.describe() == {
        "graphs": 2, "bytes": 20, "captured": 2, "used": 0, "failed": 0, "evicted": 0, "missed": 1,
    }  # fmt: skip


def test_bytes_bound_it_too() -> None:
    store = GraphStore(Maker(), max_count=100, max_bytes=25)
    store.fill(range(10))
    assert len(store) == 3  # the third reaches the bound


def test_a_failed_capture_is_counted_once_and_stays_eager(caplog: pytest.LogCaptureFixture) -> None:
    maker = Maker(broken={3})
    store = GraphStore(maker, max_count=10, max_bytes=1000)
    store.fill([4, 3, 2])
    assert store.counts["failed"] == 1
    assert "no graph for 3" in caplog.text
    assert [store.get(3) for _ in range(10)] == [None] * 10
    assert store.counts["failed"] == 1
    assert store.get(2) is maker.made[1]


def test_an_evicted_key_is_captured_again_after_some_misses() -> None:
    maker = Maker()
    store = GraphStore(maker, max_count=2, max_bytes=1000)
    store.fill([1, 2])
    store.evict(1)
    assert maker.made[0].released
    for _ in range(MISSES_BEFORE_RECAPTURE - 1):
        assert store.get(1) is None
    again = store.get(1)
    assert again is maker.made[2]
    assert not again.released
    assert store.counts["evicted"] == 1
    assert len(store) == 2


def test_capturing_again_takes_the_place_of_the_least_recently_used() -> None:
    maker = Maker()
    store = GraphStore(maker, max_count=2, max_bytes=1000)
    store.fill([1, 2, 3])
    store.get(1)
    for _ in range(MISSES_BEFORE_RECAPTURE):
        found = store.get(3)
    assert found is not None
    assert (1 in store, 2 in store, 3 in store) == (True, False, True)


def test_an_unknown_key_is_never_captured() -> None:
    maker = Maker()
    store = GraphStore(maker, max_count=2, max_bytes=1000)
    assert [store.get(9) for _ in range(9)] == [None] * 9
    assert maker.made == []


def test_clearing_releases_every_graph() -> None:
    maker = Maker()
    store = GraphStore(maker, max_count=5, max_bytes=1000)
    store.fill([1, 2])
    store.clear()
    assert all(graph.released for graph in maker.made)
    assert store.num_bytes == 0
