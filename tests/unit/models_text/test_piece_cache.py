"""Kept pieces: the same ids, bounded, the least used leave first."""

from __future__ import annotations

import numpy as np

from systone.models.piece_cache import MAX_CHARS, PieceCache


def ids(*values: int) -> bytes:
    return np.array(values, np.int32).tobytes()


def test_what_was_kept_is_found_and_nothing_else() -> None:
    cache = PieceCache()
    cache.keep({"a": ids(1, 2), "b": ids(3)})
    found = cache.find(["a", "c"])
    assert list(found) == ["a"]
    assert found["a"] == ids(1, 2)


def test_the_least_recently_used_leave_first() -> None:
    cache = PieceCache(max_pieces=2)
    cache.keep({"a": ids(1), "b": ids(2)})
    cache.find(["a"])
    cache.keep({"c": ids(3)})
    assert sorted(cache.find(["a", "b", "c"])) == ["a", "c"]
    assert len(cache) == 2


def test_long_texts_are_not_kept() -> None:
    cache = PieceCache()
    cache.keep({"x" * (MAX_CHARS + 1): ids(1), "y" * MAX_CHARS: ids(2)})
    assert len(cache) == 1
