"""Tables of few segments are those that array arithmetic gives, whatever the trie."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from hypothesis import given, settings

from systone.plan import PassTables, Row, Segment, Sharing, build_tables, build_trie
from systone.plan.build import _build_many
from systone.plan.build_few import FEW_SEGMENTS, build_few
from systone.plan.layout import lay_out
from systone.plan.passes import Part
from systone.plan.trie import Trie
from tests.unit.plan.walker import requests, segment


def assert_same(a: PassTables, b: PassTables) -> None:
    for field in fields(PassTables):
        got, wanted = getattr(a, field.name), getattr(b, field.name)
        assert got.dtype == wanted.dtype == np.int32, field.name
        assert got.shape == wanted.shape, field.name
        assert np.array_equal(got, wanted), field.name


def both(trie: Trie, rows: np.ndarray) -> tuple[PassTables, PassTables]:
    laid = lay_out(trie)
    return build_few(laid, rows), _build_many([Part(0, rows, laid)], [laid])


@given(requests())
@settings(max_examples=200, deadline=None)
def test_few_and_many_give_the_same(rows: list[Row]) -> None:
    for policy in ("default", "off"):
        trie = build_trie(rows, Sharing(policy))
        assert_same(*both(trie, np.arange(trie.num_rows, dtype=np.int32)))
        kept = np.arange(0, trie.num_rows, 2, dtype=np.int32)  # of a request that was cut
        assert_same(*both(trie.restrict(kept), kept))


def test_short_segments_one_under_the_other_look_back_across_all_of_them() -> None:
    path = tuple(segment(name, length) for name, length in enumerate((1, 1, 2, 1, 70)))
    rows = [Row(path[:n], 0, (0,)) for n in range(1, 6)]
    trie = build_trie(rows, Sharing())
    few, many = both(trie, np.arange(5, dtype=np.int32))
    assert_same(few, many)
    assert few.conv_prev[5:8].tolist() == [[4, 3, 2], [5, 4, 3], [6, 5, 4]]


def test_a_long_pass_of_one_segment() -> None:
    trie = build_trie([Row((Segment.of(list(range(9000))),), 0, (5, 8999))], Sharing())
    assert_same(*both(trie, np.zeros(1, np.int32)))


def test_what_is_built_may_be_written_to_and_touches_no_other_pass() -> None:
    trie = build_trie([Row((segment(1, 9), segment(2, 4)), 0)], Sharing())
    rows = np.zeros(1, np.int32)
    first, second = build_few(trie, rows), build_few(trie, rows)
    first.conv_prev[:] = 7
    first.positions[:] = 7
    assert_same(second, build_few(trie, rows))


def test_the_number_of_segments_decides(monkeypatch) -> None:
    from systone.plan import build

    asked: list[int] = []
    monkeypatch.setattr(build, "build_few", lambda trie, rows: asked.append(trie.num_nodes))
    for count in (1, FEW_SEGMENTS, FEW_SEGMENTS + 1):
        rows = [Row((segment(name, 3),), 0) for name in range(count)]
        part = Part(0, np.arange(count, dtype=np.int32), build_trie(rows, Sharing()))
        build_tables([part])
        build_tables([part, Part(1, part.rows, part.trie)])
    assert asked == [1, FEW_SEGMENTS]
