"""The same bits however rows are run: the list of issue equalities that one process can hold.

A check compares final hidden states and head scores of every row, bit for bit, with the row alone,
eager. Rows: {name, rows, equal, modes}; `equal` is null (not run) where an operator fell back.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from systone.execute.gpu_runner import GpuRunner
from systone.execute.graph_store import MISSES_BEFORE_RECAPTURE
from systone.plan import (
    PassBudget,
    PassTables,
    Row,
    Segment,
    Sharing,
    build_tables,
    build_trie,
    cut_passes,
)
from tests.gpu.eager import poison

Requests = Sequence[Sequence[Row]]
VOCABULARY = 200_000
NORMAL = PassBudget(4096, 1024, 256)
MIXED = 500
MODES = ("heads", "packing", "sharing", "graphs", "groups")


def long_list() -> list[list[Row]]:
    """Lengths at borders, 255 options, forks at every alignment, short segments, neighbours."""
    rng = np.random.default_rng(11)
    draw = lambda n: Segment.of(rng.integers(0, VOCABULARY, n).astype(np.int32))  # noqa: E731
    made = [[Row((draw(n),), 0)] for n in (1, 63, 64, 65, 4095, 4096, 4097, 16384)]
    state, asked = draw(333), draw(12)
    made.append([Row((state, asked, draw(3 + i % 23)), 0) for i in range(255)])
    for align in range(64):
        state = draw(64 + align)
        made.append([Row((state, draw(n)), 0) for n in (9, 1 + align)])
    made.append([Row((Segment.of([7] * 4000), draw(n)), 0) for n in (1, 2, 30)])
    made.append([Row((draw(1), draw(2), draw(1), draw(2)), 0) for _ in range(3)])
    return made


def mixed_requests(count: int) -> list[list[Row]]:
    """Requests of one to six rows, states of 1 to about 900 tokens."""
    rng = np.random.default_rng(12)
    draw = lambda n: Segment.of(rng.integers(0, VOCABULARY, n).astype(np.int32))  # noqa: E731
    made = []
    for _ in range(count):
        state, asked = draw(int(rng.geometric(1 / 150)) % 900 + 1), draw(int(rng.integers(1, 40)))
        rows = int(rng.integers(1, 7))
        made.append([Row((state, asked, draw(int(rng.integers(1, 80)))), 0) for _ in range(rows)])
    return made


class Bits:
    """Runs requests in some way; bits by (request, row) as one array [rows, hidden + width]."""

    def __init__(self, runner: GpuRunner) -> None:
        self.runner = runner

    def of(
        self, requests: Requests, policy: str = "default", budget: PassBudget = NORMAL,
        order: Sequence[int] | None = None,
    ) -> np.ndarray:  # fmt: skip
        found: dict[tuple[int, int], np.ndarray] = {}
        for requests_of, tables in _passes(requests, policy, budget, order):
            self._keep(found, requests_of, tables, self.runner.run(tables))
        return _in_order(found, requests)

    def alone(self, requests: Requests) -> np.ndarray:
        return np.concatenate([self.of([[row]], "off") for rows in requests for row in rows])

    def interleaved(self, requests: Requests) -> np.ndarray:
        """Long passes in parts, a short pass between any two parts; what is left at the end."""
        passes = list(_passes(requests, "shared", NORMAL, None))
        most = self.runner.whole_tokens
        short = [p for p in passes if p[1].num_tokens <= most]
        found: dict[tuple[int, int], np.ndarray] = {}

        def one() -> None:
            if short:
                requests_of, tables = short.pop()
                self._keep(found, requests_of, tables, self.runner.run(tables))

        for requests_of, tables in (p for p in passes if p[1].num_tokens > most):
            launch = self.runner.begin(tables)
            while launch.enqueue():
                one()
            self._keep(found, requests_of, tables, launch.take())
        while short:
            one()
        return _in_order(found, requests)

    def _keep(
        self, found: dict[tuple[int, int], np.ndarray], requests_of: Sequence[int],
        tables: PassTables, scores: np.ndarray,
    ) -> None:  # fmt: skip
        hidden = self.runner.last_hidden(scores.shape[0]).view(torch.int16).cpu().numpy()
        both = np.concatenate([hidden.astype(np.int32), scores.view(np.int32)], axis=1)
        for part, row, value in zip(tables.readout_request, tables.readout_row, both, strict=True):
            found[requests_of[part], int(row)] = value


def _passes(
    requests: Requests, policy: str, budget: PassBudget, order: Sequence[int] | None
) -> Iterator[tuple[list[int], PassTables]]:
    """(which request each part of the pass is of, the pass)."""
    order = range(len(requests)) if order is None else order
    tries = [build_trie(list(requests[i]), Sharing(policy)) for i in order]
    for parts in cut_passes(tries, budget):
        yield [order[part.request] for part in parts], build_tables(parts)


def _in_order(found: dict[tuple[int, int], np.ndarray], requests: Requests) -> np.ndarray:
    return np.stack([found[i, j] for i, rows in enumerate(requests) for j in range(len(rows))])


def modes(runner: GpuRunner) -> dict[str, Any]:
    """The effective mode of every operator that has more than one, products counted by mode."""
    check = runner.describe()["selfcheck"]
    products = dict(Counter(check["products"].values()))
    return {"products": products, **{k: check[k] for k in MODES}}


class Checks:
    """Compares ways to run some rows with one truth."""

    def __init__(self, truth: np.ndarray) -> None:
        self.truth = truth

    def row(self, name: str, runner: GpuRunner, way: Callable[[], np.ndarray]) -> dict[str, Any]:
        """The evidence of one way: what it gave, how its passes were launched, in which modes."""
        before = Counter(runner.describe()["launches"]["passes"])
        same = np.array_equal(way(), self.truth)
        said = runner.describe()
        passes = Counter(said["launches"]["passes"])
        passes.subtract(before)
        ran = said["selfcheck"]["refused"] == 0
        launched = {name: count for name, count in passes.items() if count}
        return {
            "name": name, "rows": len(self.truth), "equal": same if ran else None,
            "modes": modes(runner), "passes": launched,
        }  # fmt: skip


def exact_rows(
    runner: GpuRunner, eager: GpuRunner, requests: Requests, truth: np.ndarray | None = None
) -> Iterator[dict[str, Any]]:
    """Every way to run them against each row alone on the eager runner."""
    bits, plain = Bits(runner), Bits(eager)
    checks = Checks(plain.alone(requests) if truth is None else truth)
    shuffled = random.Random(3).sample(range(len(requests)), len(requests))
    narrow, wide = PassBudget(1024, 64, 32), PassBudget(16384, 1024, 256)
    ways: dict[str, tuple[GpuRunner, Callable[[], np.ndarray]]] = {
        "alone, graphs": (runner, lambda: bits.alone(requests)),
        "packed, graphs": (runner, lambda: bits.of(requests, "off")),
        "packed, eager": (eager, lambda: plain.of(requests, "off")),
        "permuted": (runner, lambda: bits.of(requests, "default", order=shuffled)),
        **{f"policy {p}": (runner, lambda p=p: bits.of(requests, p))
           for p in ("off", "fixed", "default", "shared", "auto")},
        "budget 1024 tokens, 64 rows: split requests":
            (runner, lambda: bits.of(requests, "shared", narrow)),
        "budget 16384 tokens": (runner, lambda: bits.of(requests, "shared", wide)),
        "shared, eager": (eager, lambda: plain.of(requests, "shared")),
        "pack off": (eager, lambda: plain.of(requests, "off", PassBudget(4096, 1, 256))),
        "after eviction and capture again": (runner, lambda: _recaptured(bits, requests)),
        "short passes between the parts of long ones":
            (runner, lambda: bits.interleaved(requests)),
        "after NaN in every buffer": (runner, lambda: _poisoned(bits, requests)),
        f"after {MIXED} mixed requests": (runner, lambda: _after_others(bits, requests)),
    }  # fmt: skip
    for name, (on, way) in ways.items():
        yield checks.row(name, on, way)


def _recaptured(bits: Bits, requests: Requests) -> np.ndarray:
    trunks = bits.runner._passes.trunks
    for key in list(trunks._held)[::2]:
        trunks.evict(key)
    for _ in range(MISSES_BEFORE_RECAPTURE):
        found = bits.of(requests, "shared")
    return found


def _poisoned(bits: Bits, requests: Requests) -> np.ndarray:
    passes = bits.runner._passes
    for split in (passes.split, *([passes.long.split] if passes.long else [])):
        poison(split.arena)
    torch.cuda.synchronize()
    return bits.of(requests, "default")


def _after_others(bits: Bits, requests: Requests) -> np.ndarray:
    others = mixed_requests(MIXED)
    for first in range(0, MIXED, 50):
        policy = ("default", "off", "shared", "auto")[first // 50 % 4]
        bits.of(others[first : first + 50], policy)
    return bits.of(requests, "default")
