"""Work lists of few segments are those that array arithmetic gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from systone.kernels.work import _few_lists, _lists
from systone.plan import Row, Sharing, build_tables, build_trie
from systone.plan.passes import Part
from tests.unit.plan.walker import requests, segment


@pytest.mark.parametrize("tile_tokens", [16, 64, 128])
def test_few_and_many_segments_give_the_same_lists(tile_tokens: int) -> None:
    @given(requests())
    @settings(max_examples=80, deadline=None)
    def check(rows: list[Row]) -> None:
        for policy in ("default", "off"):
            trie = build_trie(rows, Sharing(policy))
            tables = build_tables([Part(0, np.arange(trie.num_rows, dtype=np.int32), trie)])
            few, many = _few_lists(tables, tile_tokens), _lists(tables, tile_tokens)
            assert few.keys() == many.keys()
            for name, array in many.items():
                assert few[name].dtype == array.dtype == np.int32, name
                assert np.array_equal(few[name], array), name

    check()


def test_long_leaves_come_after_short_ones() -> None:
    rows = [Row((segment(1, 70), segment(2 + i, n)), 0) for i, n in enumerate((65, 3, 200, 64))]
    trie = build_trie(rows, Sharing())
    tables = build_tables([Part(0, np.arange(4, dtype=np.int32), trie)])
    few = _few_lists(tables, 64)
    assert few["scan_entries"][:, 1].tolist() == [70, 3, 64, 65, 200]
    assert few["scan_ptr"].tolist() == [0, 1, 3, 5]
