"""Kev at full size with random weights: exactness, model time, long states, load through an engine.

python3 -m scripts.gpu_suite.kev [--commit HASH] [--model kev-4b] [--max-length N] [exact times ...]
Writes a row at a time to $OUT/gpu_kev.json. Times are milliseconds of wall clock unless said.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import mean, median
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from scripts.gpu_suite.kev_requests import Writer, exact_list
from scripts.gpu_suite.timing import graph_ms, machine
from systone import Engine
from systone.config import EngineConfig, ModelSettings
from systone.execute.buckets import readout_bucket
from systone.execute.gpu_head import read_out
from systone.execute.gpu_runner import GpuRunner
from systone.execute.graph_passes import GraphedPasses, GraphSettings
from systone.models import registry
from systone.models.base import Loaded, Prepared
from systone.plan import PassBudget, Sharing, Trie, build_tables, build_trie, cut_passes

BEGAN = time.perf_counter()
LONG_STATE = 65_536
PACK_OFF = PassBudget(4096, 1, 256)


def say(text: str) -> None:
    print(f"[{time.perf_counter() - BEGAN:6.1f}] {text}", flush=True)


class Bits:
    """Final hidden states and scores of every read-out, as integers, in request and row order."""

    def __init__(self, runner: GpuRunner) -> None:
        self.runner = runner

    def of(self, tries: list[Trie], budget: PassBudget, order: list[int] | None = None) -> Any:
        order = list(range(len(tries))) if order is None else order
        found: dict[tuple[int, int], list[np.ndarray]] = {}
        for parts in cut_passes([tries[i] for i in order], budget):
            tables = build_tables(parts)
            scores = self.runner.run(tables)
            hidden = self.runner.last_hidden(scores.shape[0]).view(torch.int16).cpu().numpy()
            both = np.concatenate([hidden.astype(np.int32), scores.view(np.int32)], axis=1)
            for part, row, value in zip(
                tables.readout_request, tables.readout_row, both, strict=True
            ):
                found.setdefault((order[parts[part].request], int(row)), []).append(value)
        return np.concatenate([np.stack(found[key]) for key in sorted(found)])


def exact_rows(loaded: Loaded, runner: GpuRunner) -> Iterator[dict[str, Any]]:
    """Every way to run the questions against each question alone, eager and unshared."""
    requests = [loaded.adapter.prepare(request) for request in exact_list(_writer(loaded))]
    rows = [prepared.context.rows.rows for prepared in requests]
    questions = sum(map(len, rows))

    def tries(policy: str) -> list[Trie]:
        return [build_trie(list(own), Sharing(policy)) for own in rows]  # type: ignore[arg-type]

    bits, graphed = Bits(runner), runner._passes
    assert graphed is not None
    eager = GraphedPasses(
        graphed.split, graphed.stage, GraphSettings(), None, graphed.sample, graphed.long
    )
    single = [build_trie([row], Sharing("off")) for own in rows for row in own]
    roomy = PassBudget(1, 1, 1)  # what is over a budget runs alone
    runner._passes = eager
    truth = bits.of(single, roomy)
    yield {"name": "finite", "equal": bool(np.isfinite(truth[:, -1:].view(np.float32)).all())}
    runner._passes = graphed
    normal, narrow = PassBudget(4096, 1024, 256), PassBudget(1024, 300, 256)
    shuffled = random.Random(3).sample(range(len(rows)), len(rows))
    ways: dict[str, Callable[[], Any]] = {
        "alone, graphs": lambda: bits.of(single, roomy),
        **{f"policy {p}": lambda p=p: bits.of(tries(p), normal)
           for p in ("off", "default", "shared")},
        "permuted": lambda: bits.of(tries("default"), normal, shuffled),
        "passes of 1024 tokens": lambda: bits.of(tries("shared"), narrow),
        "pack off": lambda: bits.of(tries("off"), PACK_OFF),
    }  # fmt: skip
    for name, way in ways.items():
        began = time.perf_counter()
        same = np.array_equal(way(), truth)
        yield {"name": name, "questions": questions, "readouts": len(truth), "equal": same,
               "seconds": round(time.perf_counter() - began, 2)}  # fmt: skip
    runner._passes = eager
    same = np.array_equal(bits.of(tries("default"), normal), truth)
    yield {"name": "packed, eager", "questions": questions, "equal": same}
    runner._passes = graphed


def times_rows(loaded: Loaded, runner: GpuRunner) -> Iterator[dict[str, Any]]:
    """Model time as replies report it, beside the device's own time of the same pass."""
    writer = _writer(loaded)
    for state, questions, target in ((60, 6, 5.5), (2200, 5, 30.0), (2050, 5, 30.0)):

        def prepared(state: int = state, questions: int = questions) -> Prepared:
            return loaded.adapter.prepare(writer.request(state, questions, 30))

        took, whole = [], []
        for _ in range(25):
            asked, began = prepared(), time.perf_counter()
            (readout,) = loaded.executor.execute([asked])
            whole.append(1e3 * (time.perf_counter() - began))
            took.append(1e3 * readout.stats["inference_seconds"])
        work = prepared().work
        on_device = _device_ms(runner, work)
        yield {"name": f"state {state}, {questions} questions of 30",
               "tokens": int(work.load.tokens), "model_ms": round(median(took[5:]), 3),
               "mean_ms": round(mean(took[5:]), 3),
               "execute_ms": round(median(whole[5:]), 3), "device_ms": round(sum(on_device), 3),
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
    writer = _writer(loaded)
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


def load_rows(engine: Engine, loaded: Loaded, seconds: float) -> Iterator[dict[str, Any]]:
    """A closed loop of 64 threads through the engine, every request new."""
    writer = _writer(loaded)
    for clients, questions in ((64, 6), (64, 1), (1, 6)):
        span = seconds if (clients, questions) == (64, 6) else seconds / 3
        requests = [writer.request(60, questions, 30) for _ in range(int(500 * span) + 200)]
        yield _closed_loop(engine, requests, clients, questions, span)


def _closed_loop(
    engine: Engine, requests: list[Any], clients: int, questions: int, span: float
) -> dict[str, Any]:
    took: list[float] = []
    steps: list[dict[str, float]] = []
    remaining, lock = iter(requests), threading.Lock()
    before = engine.tally().lanes
    earlier = next(iter(before.values())).device_s if before else 0.0
    batches = next(iter(before.values())).batches if before else 0
    began = time.perf_counter()
    end = began + span

    def client() -> None:
        while time.perf_counter() < end:
            with lock:
                request = next(remaining, None)
            if request is None:
                return
            at = time.perf_counter()
            pending = engine.submit(request)
            pending.result()
            took.append(1e3 * (time.perf_counter() - at))
            steps.append(pending.stamps.durations_s())

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = time.perf_counter() - began
    lane = next(iter(engine.tally().lanes.values()))
    return {
        "name": f"{clients} clients, state 60, {questions} questions of 30",
        "requests": len(took), "per_second": round(len(took) / wall, 1),
        "p50_ms": round(float(np.percentile(took, 50)), 2),
        "p95_ms": round(float(np.percentile(took, 95)), 2),
        "p99_ms": round(float(np.percentile(took, 99)), 2),
        "steps_ms": {
            name: [round(float(np.percentile([1e3 * s[name] for s in steps], q)), 2)
                   for q in (50, 95)] for name in ("prepare", "queue", "device", "finish")
        },
        "batches": lane.batches - batches,
        "device_share": round((lane.device_s - earlier) / wall, 3),
    }  # fmt: skip


def _writer(loaded: Loaded) -> Writer:
    return Writer(loaded.adapter._tokenizer)  # type: ignore[attr-defined]


class Report:
    """Rows as they come, on the screen and in the file."""

    def __init__(self, path: Path, facts: dict[str, Any]) -> None:
        self._path, self._held = path, {**facts, "rows": []}

    def add(self, part: str, row: dict[str, Any]) -> None:
        self._held["rows"].append({"part": part, **row})
        say("  ".join(f"{key}={value}" for key, value in row.items()))
        self._path.write_text(json.dumps(self._held, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commit", default=os.environ.get("COMMIT", "unknown"))
    parser.add_argument("--model", default="kev-4b")
    parser.add_argument("--max-length", type=int)
    parser.add_argument("--seconds", type=float, default=9.0, help="of the closed loop")
    parser.add_argument("parts", nargs="*", default=["exact", "times", "long", "load"])
    args = parser.parse_args()
    settings = ModelSettings(
        source=f"synth:{args.model}", device="cuda", max_length=args.max_length
    )
    loaded = registry.load(settings.source, settings)
    say("weights drawn")
    report = Report(
        Path(os.environ.get("OUT", ".")) / "gpu_kev.json",
        {"commit": args.commit, "model": args.model, **machine()},
    )
    engine = Engine([loaded], EngineConfig(model=settings))
    with engine:
        runner = loaded.executor.runner  # type: ignore[attr-defined]
        said = runner.describe()
        shown = ("selfcheck", "launches", "pass_limits", "pass_ms", "memory")
        row = {"name": "start", **{key: said[key] for key in shown}}
        report.add("start", row | {"batch_tokens": loaded.executor.describe().get("batch_tokens")})
        parts: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
            "exact": lambda: exact_rows(loaded, runner),
            "times": lambda: times_rows(loaded, runner),
            "long": lambda: long_rows(loaded, runner),
            "load": lambda: load_rows(engine, loaded, args.seconds),
        }
        for part in args.parts:  # the engine is idle while a part uses its runner
            for row in parts[part]():
                report.add(part, row)
        said = runner.describe()
        report.add("end", {"name": "end", "compilations": said["compilations_since_ready"],
                           "launches": said["launches"]})  # fmt: skip
    wrong = [row for row in report._held["rows"] if row.get("equal") is False]
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
