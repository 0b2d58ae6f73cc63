"""Token and read-out buckets: their steps, their capacities and what padding costs."""

from itertools import pairwise

import numpy as np
import pytest

from systone.bench.shape231 import shapes
from systone.execute.buckets import (
    Bucket,
    Size,
    choose,
    readout_bucket,
    readout_buckets,
    row_bucket,
    token_buckets,
)
from systone.plan import Part, Row, Segment, Sharing, build_tables, build_trie

BUCKETS = token_buckets(4096)


def size(tokens: int, **changes: int) -> Size:
    made = {"segments": 1, "chunks": -(-tokens // 64), "states": 0, "depth": 0, "readouts": 1}
    return Size(tokens, **(made | changes))


def test_steps_are_64_then_128_then_256() -> None:
    found = token_buckets(8192)
    steps = {b - a for a, b in pairwise(found) if b <= 2048}
    assert (found[0], steps) == (64, {64})
    assert {b - a for a, b in pairwise(found) if 2048 < b <= 4096} == {128}
    assert {b - a for a, b in pairwise(found) if b > 4096} == {256}
    assert len(BUCKETS) == 48


@pytest.mark.parametrize(
    ("rows", "bucket"),
    [(1, 64), (64, 64), (65, 128), (2048, 2048), (2049, 2176), (4096, 4096), (4097, 4352)],
)
def test_a_row_count_runs_at_the_next_bucket(rows: int, bucket: int) -> None:
    assert row_bucket(rows) == bucket
    assert bucket in token_buckets(rows)


def test_read_outs_run_at_powers_of_two_from_8() -> None:
    assert [readout_bucket(n) for n in (1, 64, 65, 255, 1024)] == [64, 64, 128, 256, 1024]
    assert readout_buckets(1024) == (64, 128, 256, 512, 1024)


def test_mean_padding_on_the_231_shape_is_at_most_4_percent() -> None:
    tokens = [shape.item.unique for shape in shapes()]
    assert (len(tokens), sum(tokens)) == (231, 168_801)
    padded = [choose(size(n), token_buckets(16384)).rows for n in tokens]
    assert sum(padded) / sum(tokens) - 1 <= 0.04


def test_the_231_shape_fits_the_buckets_of_its_tokens() -> None:
    for shape in shapes():
        item = shape.item
        asked = size(
            item.unique, segments=2 + item.rows, states=2, readouts=item.rows,
            chunks=2 + item.unique // 64 + item.rows,
        )  # fmt: skip
        assert choose(asked, token_buckets(16384)).moved is None


@pytest.mark.parametrize(
    ("over", "changes", "bucket"),
    [
        ("segments", {"segments": 64, "chunks": 64}, 1024),
        ("chunks", {"segments": 32, "chunks": 45}, 576),
        ("states", {"states": 10}, 640),
    ],
)
def test_what_does_not_fit_moves_to_the_next_bucket_that_holds_it(over, changes, bucket) -> None:
    choice = choose(size(512, **changes), BUCKETS)
    assert (choice.bucket, choice.rows, choice.moved) == (Bucket(bucket), bucket, over)


def test_what_no_bucket_holds_runs_eagerly_at_a_padded_row_count() -> None:
    assert choose(size(4097), BUCKETS) == choose(size(4352), BUCKETS)
    assert choose(size(4097), BUCKETS).bucket is None
    assert choose(size(4097), BUCKETS).rows == 4352
    many = choose(size(300, segments=257, chunks=257), BUCKETS)
    assert (many.bucket, many.rows, many.moved) == (None, 320, "segments")
    forks = choose(size(300, states=65), BUCKETS)
    assert (forks.bucket, forks.rows, forks.moved) == (None, 320, "states")


def test_the_size_of_a_pass_is_read_from_its_tables() -> None:
    state, asked = Segment.of(list(range(70))), Segment.of([1, 2, 3])
    rows = [Row((state, asked, Segment.of([n] * 5)), 0) for n in range(4)]
    trie = build_trie(rows, Sharing("shared"))
    tables = build_tables([Part(0, np.arange(4, dtype=np.int32), trie)])
    assert Size.of(tables) == Size(93, 6, 7, 2, 2, 4)
