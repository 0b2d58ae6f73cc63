"""The row counts a pass may run at, and which of them holds a pass. No torch.

A pass is padded to a token bucket and its tail to a read-out bucket, so that matrix products run at
proven row counts only. T tokens of a bucket; R read-outs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from systone.plan.tables import CHUNK, PassTables

Overflow: TypeAlias = Literal["tokens", "segments", "chunks", "states", "depth", "readouts"]

_FIRST, _MIDDLE = 2048, 4096  # steps of 64 up to the first, 128 up to the second, then 256
PRODUCT_ROWS = 8192  # a bucket; matrix products of more rows run in pieces of so many
# Below 64 rows every product costs one read of its weight anyway, and with split-K forbidden
# cuBLASLt has no good kernel for long sums over a few rows (H200, K = 12288: 275 us at 8 rows, 24
# at 64).
_LEAST_READOUTS = 64
# A small bucket still takes a request of some options: forks of state, question and options.
_LEAST_SEGMENTS, _LEAST_STATES = 16, 8


@dataclass(frozen=True, slots=True)
class Size:
    """What a pass asks of a bucket. `depth`: depths that have inner segments."""

    tokens: int
    segments: int
    chunks: int
    states: int
    depth: int
    readouts: int

    @classmethod
    def of(cls, tables: PassTables) -> Size:
        return cls(
            tokens=len(tables.token_ids),
            segments=len(tables.seg_start),
            chunks=len(tables.chunk_seg),
            states=len(tables.inner_seg),
            depth=len(tables.inner_ptr) - 1,
            readouts=len(tables.readout_token),
        )


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket's room: T/16 segments, T/64 forked states, a partly filled chunk for each
    segment beyond T/64 whole ones."""

    tokens: int

    @property
    def segments(self) -> int:
        return max(self.tokens // 16, _LEAST_SEGMENTS)

    @property
    def chunks(self) -> int:
        return self.tokens // CHUNK + self.segments

    @property
    def states(self) -> int:
        return max(self.tokens // CHUNK, _LEAST_STATES)

    def overflow(self, size: Size) -> Overflow | None:
        """The first capacity that `size` exceeds, None when it fits."""
        for name in ("tokens", "segments", "chunks", "states"):
            if getattr(size, name) > getattr(self, name):
                return name
        return None


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a pass runs: a bucket, or None for eager at `rows` padded tokens. `moved`: what kept
    it out of the smallest bucket that has room for its tokens."""

    bucket: Bucket | None
    rows: int
    moved: Overflow | None


def row_bucket(rows: int) -> int:
    """The token count that `rows` tokens run at."""
    step = 64 if rows <= _FIRST else 128 if rows <= _MIDDLE else 256
    return max(-(-rows // step) * step, step)


def readout_bucket(rows: int) -> int:
    """The same for read-outs: 64, 128, 256, ..."""
    return max(_LEAST_READOUTS, 1 << (rows - 1).bit_length())


def token_buckets(most: int) -> tuple[int, ...]:
    """Every token bucket up to the one that holds `most`, ascending."""
    found = [row_bucket(1)]
    while found[-1] < most:
        found.append(row_bucket(found[-1] + 1))
    return tuple(found)


def readout_buckets(most: int) -> tuple[int, ...]:
    """Every read-out bucket up to the one that holds `most`, ascending."""
    found = [_LEAST_READOUTS]
    while found[-1] < most:
        found.append(2 * found[-1])
    return tuple(found)


def choose(size: Size, buckets: Sequence[int]) -> Choice:
    """The smallest of `buckets` (ascending) in which everything fits, else eager at the padded
    token count."""
    rows = row_bucket(size.tokens)
    moved: Overflow | None = None
    for tokens in buckets[bisect_left(buckets, size.tokens) :]:
        bucket = Bucket(tokens)
        over = bucket.overflow(size)
        if over is None:
            return Choice(bucket, tokens, moved)
        moved = moved or over
    return Choice(None, rows, moved or "tokens")
