"""How a pass is launched: trunk and tail as graphs of their buckets, eager at a padded size else.

Owns the choice and its counts; a pass has the same bits either way. A long pass is enqueued in
groups of layers, in buffers that let other passes run between two groups. `capture` makes a graph
of launches, or None to run everything eagerly. T padded tokens, R padded read-outs.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torch import Tensor

from systone.errors import ConfigError, EngineFaultError
from systone.execute.buckets import (
    Bucket,
    Size,
    choose,
    readout_bucket,
    readout_buckets,
    token_buckets,
)
from systone.execute.gpu_pass import GpuPass
from systone.execute.graph_long import Grouped, Long
from systone.execute.graph_stage import Capacity, PassStage
from systone.execute.graph_store import Capture, Graph, GraphStore
from systone.kernels.gemm.cublaslt import exact_blas
from systone.plan.tables import I32, PassTables

log = logging.getLogger(__name__)

_SIZES_KEPT = 256

TrunkKey = tuple[int, int]  # tokens, depths with inner segments


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """Which graphs are captured at start and how many are kept.

    Trunks up to `tokens`; for small ones a graph per depth of `small_depths`, as a scan that may
    leave states costs more there. What is deeper runs eagerly. Bounds are per model."""

    tokens: int = 4096
    small_tokens: int = 512
    small_depths: tuple[int, ...] = (0, 2)
    depths: tuple[int, ...] = (2,)
    max_count: int = 160
    max_bytes: int = 6 * 2**30

    def __post_init__(self) -> None:
        if self.tokens < 1 or self.max_count < 1 or self.max_bytes < 1:
            raise ConfigError("graphs: tokens, max_count and max_bytes must be at least 1")

    def depths_of(self, tokens: int) -> tuple[int, ...]:
        """Ascending."""
        return self.small_depths if tokens <= self.small_tokens else self.depths


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """How a pass of some size runs: at so many padded read-outs and tokens, its trunk as a graph or
    eagerly (None), laid out for a capacity. `detours`: why it isn't in the bucket of its tokens, or
    in none."""

    readouts: int
    rows: int
    trunk: TrunkKey | None
    capacity: Capacity
    detours: tuple[str, ...]


class GraphedPasses:
    """Used by one thread, on one stream."""

    def __init__(
        self,
        split: GpuPass,
        stage: PassStage,
        settings: GraphSettings,
        capture: Capture | None,
        sample: Callable[[int], PassTables],
        long: Long | None = None,
    ) -> None:
        """`sample`: a pass of at most 64 tokens with inner segments at so many depths; staged so
        that launches which warm up before a capture read sound tables. `long`: None runs every
        pass whole."""
        self.split = split
        self.stage = stage
        self.settings = settings
        self.long = long
        self._long_runs = False
        most = min(settings.tokens, (long.split if long else split).arena.room.tokens)
        self.buckets = token_buckets(most) if capture else ()
        self._make = capture
        self.sample = sample
        self.trunks: GraphStore[TrunkKey] = GraphStore(
            self._capture_trunk, settings.max_count, settings.max_bytes
        )
        self.tails: GraphStore[int] = GraphStore(
            self._capture_tail, settings.max_count, settings.max_bytes
        )
        # passes come in few sizes
        self._way = lru_cache(_SIZES_KEPT)(self._way_for)
        self._ways: dict[int, tuple[I32, _Way]] = {}
        self._counts: Counter[str] = Counter()
        self._seconds = 0.0

    def capture(self) -> None:
        """Every tail, then trunks from the largest down, while the bounds allow."""
        if not self.buckets:
            return
        began = time.perf_counter()
        self.tails.fill(reversed(readout_buckets(self.split.arena.room.readouts)))
        self.trunks.fill(self._trunk_keys())
        self._seconds = time.perf_counter() - began
        log.info("%d graphs in %.1f s", len(self.trunks) + len(self.tails), self._seconds)

    def on_copy(self, call: Callable[[], None]) -> None:
        """What to do right before the next passes' first device work, on the launching thread."""
        self.stage.before_copy = call
        if self.long is not None:
            self.long.stage.before_copy = call

    def launch(self, tables: PassTables) -> Tensor:
        """Enqueue a pass; FP32 scores [R, W], valid once the stream gets there. Raises as `parts`
        does."""
        *_, scores = self.parts(tables)
        assert scores is not None
        return scores

    def parts(self, tables: PassTables) -> Iterator[Tensor | None]:
        """Enqueue a pass part by part: the next one with each step, the scores with the last.
        Between two steps any other pass may be launched, as long as it isn't long as well.

        Raises EngineFaultError: a pass larger than what the device was set up for, or a second
        long one."""
        way = self._way_of(tables)
        for reason in way.detours:
            self._counts[reason] += 1
        if self.long is not None and way.rows > self.long.beyond:
            yield from self._in_groups(self.long, tables, way)
            return
        trunk = self.trunks.get(way.trunk) if way.trunk else None
        tail = self.tails.get(way.readouts) if self.buckets else None
        staged = self.stage.load(tables, way.capacity, way.readouts)
        if trunk is None:
            with exact_blas():
                self.split.trunk(staged)
            self._counts["eager"] += 1
        else:
            trunk.replay()
            self._counts["replayed"] += 1
        if tail is None:
            with exact_blas():
                self.split.tail(staged)
        else:
            tail.replay()
        yield self.split.arena.scores[: way.readouts]

    def _in_groups(self, long: Long, tables: PassTables, way: _Way) -> Iterator[Tensor | None]:
        if self._long_runs:
            raise EngineFaultError("a long pass was begun inside another one")
        trunk = self.trunks.get(way.trunk) if way.trunk else None
        staged = long.stage.load(tables, way.capacity, way.readouts)
        self._counts["in groups, eager" if trunk is None else "in groups, replayed"] += 1
        groups = long.groups(way.rows)
        self._long_runs = True
        try:
            for at, (first, end) in enumerate(groups):
                if isinstance(trunk, Grouped):
                    trunk.graphs[at].replay()
                else:
                    with exact_blas():
                        long.split.layers(staged, first, end)
                if at < len(groups) - 1:
                    yield None
            with exact_blas():
                long.split.tail(staged)  # reads what the last group left in the shared buffers
        finally:
            self._long_runs = False
        yield long.split.arena.scores[: way.readouts]

    @property
    def graph_bytes(self) -> int:
        return self.trunks.num_bytes + self.tails.num_bytes

    def describe(self) -> Mapping[str, Any]:
        return {
            "trunks": self.trunks.describe(),
            "tails": self.tails.describe(),
            "largest_bucket": self.buckets[-1] if self.buckets else 0,
            "capture_seconds": round(self._seconds, 2),
            "whole_up_to": self.long.beyond if self.long else self.split.arena.room.tokens,
            "passes": dict(self._counts),
        }

    def close(self) -> None:
        self.trunks.clear()
        self.tails.clear()

    def _trunk_keys(self) -> Iterator[TrunkKey]:
        for tokens in reversed(self.buckets):
            for depth in self.settings.depths_of(tokens):
                yield tokens, depth

    def _way_of(self, tables: PassTables) -> _Way:
        """Tables that are kept (`plan.TablesMemo`) are known by their first array: a look at every
        one of them takes longer than all that follows."""
        known = self._ways.get(id(tables.seg_start))
        if known is not None and known[0] is tables.seg_start:
            return known[1]
        way = self._way(Size.of(tables))
        if not tables.seg_start.flags.writeable:
            if len(self._ways) >= _SIZES_KEPT:
                self._ways.clear()
            self._ways[id(tables.seg_start)] = tables.seg_start, way
        return way

    def _way_for(self, size: Size) -> _Way:
        """Raises EngineFaultError: more states than the device was set up for."""
        room = self.split.arena.room.states
        if size.states > room:
            raise EngineFaultError(
                f"a pass has {size.states} forked states; the device was set up for {room}"
            )
        readouts, choice = readout_bucket(size.readouts), choose(size, self.buckets)
        eager = Capacity.of_size(size, choice.rows)
        if not self.buckets:
            return _Way(readouts, choice.rows, None, eager, ())
        detours = (f"{choice.moved} over",) if choice.moved else ()
        if choice.bucket is None:
            return _Way(readouts, choice.rows, None, eager, detours)
        tokens = choice.bucket.tokens
        depth = next((d for d in self.settings.depths_of(tokens) if d >= size.depth), None)
        if depth is None:
            return _Way(readouts, choice.rows, None, eager, (*detours, "depth over"))
        key = tokens, depth
        return _Way(readouts, choice.rows, key, self._capacity(key), detours)

    def _capacity(self, key: TrunkKey) -> Capacity:
        return Capacity.of_bucket(Bucket(key[0]), key[1])

    def _capture_trunk(self, key: TrunkKey) -> Graph:
        assert self._make is not None
        sample, capacity, long = self.sample(key[1]), self._capacity(key), self.long
        if long is None or key[0] <= long.beyond:
            staged = self.stage.load(sample, capacity, readout_bucket(1))
            with exact_blas():
                return self._make(lambda: self.split.trunk(staged))
        staged = long.stage.load(sample, capacity, readout_bucket(1))
        with exact_blas():
            return Grouped.capture(long, staged, self._make)

    def _capture_tail(self, readouts: int) -> Graph:
        assert self._make is not None
        staged = self.stage.load(self.sample(0), self._capacity((self.buckets[0], 0)), readouts)
        with exact_blas():
            return self._make(lambda: self.split.tail(staged))
