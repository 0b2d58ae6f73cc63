"""A Kev's model time, its head's, and a state at the limit. Milliseconds unless said.

`model_ms`: what replies report, requests one right after the other; `alone_ms`: requests PAUSE_S
apart; `execute_ms`: with tables made and staged; `device_ms`: the graphs replayed on their own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from statistics import mean, median
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from scripts.gpu_suite.kev_requests import writer_of
from scripts.gpu_suite.timing import graph_ms
from systone.execute.buckets import readout_bucket
from systone.execute.gpu_head import read_out
from systone.execute.gpu_runner import GpuRunner
from systone.models.base import Loaded, Prepared
from systone.plan import PassBudget, Trie, build_tables, cut_passes

LONG_STATE = 65_536
REQUESTS, WARM_UPS = 25, 5
PAUSE_S = 0.1


def times_rows(loaded: Loaded, runner: GpuRunner) -> Iterator[dict[str, Any]]:
    """Model time as replies report it, beside the device's own time of the same pass."""
    writer = writer_of(loaded)
    for state, questions, target in ((60, 6, 5.5), (2200, 5, 30.0), (2050, 5, 30.0)):

        def prepared(state: int = state, questions: int = questions) -> Prepared:
            return loaded.adapter.prepare(writer.request(state, questions, 30))

        took, whole, alone = [], [], []
        for pause, model in ((0.0, took), (PAUSE_S, alone)):
            for _ in range(REQUESTS):
                time.sleep(pause)
                asked, began = prepared(), time.perf_counter()
                (readout,) = loaded.executor.execute([asked])
                whole.append(1e3 * (time.perf_counter() - began))
                model.append(1e3 * readout.stats["inference_seconds"])
        work = prepared().work
        on_device = _device_ms(runner, work)
        yield {"name": f"state {state}, {questions} questions of 30",
               "tokens": int(work.load.tokens), "model_ms": round(median(took[WARM_UPS:]), 3),
               "mean_ms": round(mean(took[WARM_UPS:]), 3),
               "alone_ms": round(median(alone[WARM_UPS:]), 3),
               "execute_ms": round(median(whole[WARM_UPS:REQUESTS]), 3),
               "device_ms": round(sum(on_device), 3),
               "trunk_ms": round(on_device[0], 3), "tail_ms": round(on_device[1], 3),
               "target_ms": target}  # fmt: skip
    yield from _head_rows(runner)


def _device_ms(runner: GpuRunner, trie: Trie) -> tuple[float, float]:
    """Medians of the trunk's and the tail's graph replayed on their own."""
    (parts,) = cut_passes([trie], PassBudget(10**6, 10**6, 10**6))
    tables = build_tables(parts)
    passes = runner._passes
    assert passes is not None
    runner.run(tables)
    trunk = next(reversed(passes.trunks._held.values()))  # the last used
    tail = next(reversed(passes.tails._held.values()))

    def timed(graph: Any) -> float:
        graphs = getattr(graph, "graphs", (graph,))
        took = []
        with torch.cuda.stream(runner._stream):
            for _ in range(15):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                for one in graphs:
                    one.replay()
                end.record()
                end.synchronize()
                took.append(begin.elapsed_time(end))
        return median(took)

    return timed(trunk), timed(tail)


def _head_rows(runner: GpuRunner) -> Iterator[dict[str, Any]]:
    """The pointer head alone, on the last pass's hidden states."""
    passes = runner._passes
    assert passes is not None
    split = passes.split
    for rows in (3, 24, 256, 1024):
        width = readout_bucket(rows)
        counts = torch.tensor([0, 0, rows, 0], dtype=torch.int32, device="cuda")
        query = torch.arange(width, dtype=torch.int32, device="cuda") // 4 * 4 + 3
        tables: Any = SimpleNamespace(counts=counts, readout_query=query.clamp(max=rows - 1))
        hidden = split.arena.take("last_normed", width, split.config.hidden_size)
        out = split.arena.scores[:width]
        call = partial(read_out, split.model, hidden, tables, split.arena, out)
        yield {"name": f"pointer head, {rows} read-outs", "device_ms": round(graph_ms(call), 4)}


def long_rows(loaded: Loaded, runner: GpuRunner) -> Iterator[dict[str, Any]]:
    """A state at the limit: time and the most memory ever allocated."""
    limit = loaded.adapter.limits.state  # type: ignore[attr-defined]
    writer = writer_of(loaded)
    torch.cuda.reset_peak_memory_stats()
    for round_ in range(2):
        prepared = loaded.adapter.prepare(writer.request(min(LONG_STATE, limit), 5, 30))
        began = time.perf_counter()
        (readout,) = loaded.executor.execute([prepared])
        if isinstance(readout, Exception):
            raise readout
        yield {"name": f"state {min(LONG_STATE, limit)}, 5 questions, round {round_}",
               "seconds": round(time.perf_counter() - began, 3),
               "finite": bool(np.isfinite(readout.values).all()),
               "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2),
               "memory": dict(runner.describe()["memory"])}  # fmt: skip
