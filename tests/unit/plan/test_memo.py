"""Tables of structures met before are those that would be built anew."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systone.plan import (
    Part,
    PassTables,
    Row,
    Segment,
    Sharing,
    TablesMemo,
    build_tables,
    build_trie,
)

LENGTHS = st.lists(st.lists(st.integers(1, 70), min_size=1, max_size=3), min_size=1, max_size=5)


def part_of(lengths: list[list[int]], start: int, *, shared: bool = True) -> tuple[Part, ...]:
    """A request whose rows share the first segment where its length is equal."""
    rows = []
    for index, row in enumerate(lengths):
        path = [
            Segment.of([start + 7 * n + depth + (index if depth else 0) for n in range(length)])
            for depth, length in enumerate(row)
        ]
        rows.append(Row(tuple(path), index))
    trie = build_trie(rows, Sharing("shared" if shared else "off"))
    return (Part(0, np.arange(trie.num_rows, dtype=np.int32), trie),)


def assert_same(a: PassTables, b: PassTables) -> None:
    for field in fields(PassTables):
        got, wanted = getattr(a, field.name), getattr(b, field.name)
        assert got.dtype == wanted.dtype, field.name
        assert np.array_equal(got, wanted), field.name


@settings(max_examples=60, deadline=None)
@given(st.lists(LENGTHS, min_size=1, max_size=6), st.booleans())
def test_kept_tables_are_those_built_anew(requests: list[list[list[int]]], shared: bool) -> None:
    memo = TablesMemo(max_structures=3)
    for start, lengths in enumerate([*requests, *requests, requests[0], requests[0]]):
        parts = part_of(lengths, 100 * start, shared=shared)
        assert_same(memo.of(parts), build_tables(parts))
        assert len(memo) <= 3


def test_a_structure_that_comes_again_shares_its_read_only_arrays() -> None:
    memo = TablesMemo()
    first, second = (memo.of(part_of([[5, 3], [5, 4]], start)) for start in (0, 50))
    assert first.seg_start is second.seg_start
    assert not np.array_equal(first.token_ids, second.token_ids)
    with pytest.raises(ValueError, match="read-only"):
        second.seg_start[0] = 1


def test_several_requests_are_not_kept() -> None:
    memo = TablesMemo()
    (one,) = part_of([[5]], 0)
    tables = memo.of((one, Part(1, one.rows, one.trie)))
    assert len(memo) == 0
    assert tables.seg_start.flags.writeable
