"""Passes in flight together: the same bits, what a short one waits beside a long one, idle time.

python3 -m scripts.gpu_suite.overlap --commit HASH [bits|memory|engine|path]
Rows: {name, ...}; `equal` compares scores bit for bit with passes run whole and one at a time.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scripts.gpu_suite.exact import NORMAL, long_list
from scripts.gpu_suite.models import decision, recipe, served
from scripts.gpu_suite.overlap_engine import engine_rows
from scripts.gpu_suite.timing import machine
from systone.errors import ConfigError
from systone.execute import gpu_pass
from systone.execute.gpu_pace import one_row
from systone.execute.gpu_runner import GpuLimits, GpuRunner
from systone.execute.graph_passes import GraphSettings
from systone.execute.graph_store import MISSES_BEFORE_RECAPTURE
from systone.execute.selfcheck_start import StartSettings
from systone.plan import PassTables, Sharing, build_tables, build_trie, cut_passes

BEGAN = time.perf_counter()
LIMITS = GpuLimits(tokens=16384, segments=4096, states=512)
VOCABULARY = 200_000


def say(text: str) -> None:
    print(f"[{time.perf_counter() - BEGAN:6.1f}] {text}", flush=True)


def started(model: Any, limits: GpuLimits = LIMITS, **settings: Any) -> GpuRunner:
    runner = GpuRunner(lambda _: model, "cuda", limits, StartSettings(**settings))
    began = time.perf_counter()
    runner.start()
    said = runner.describe()
    say(f"start {time.perf_counter() - began:.1f} s {said['selfcheck']} {said['memory']}")
    return runner


def bits() -> Iterator[dict[str, Any]]:
    """8 layers: in groups, with others between, many in flight, MLPs in other row chunks."""
    model = decision(served(recipe("open-jev-9b", layers=8)))
    say("8 layers placed")
    plain = started(model, graphs=None, whole_s=None)
    tries = [build_trie(rows, Sharing("shared")) for rows in long_list()]
    passes = [build_tables(parts) for parts in cut_passes(tries, NORMAL)]
    truth = [plain.run(tables) for tables in passes]
    rows = sum(len(scores) for scores in truth)

    for chunk in (256, 2048, 65536):
        gpu_pass.MLP_ROWS, kept = chunk, gpu_pass.MLP_ROWS
        try:
            # a larger chunk than the arena is made for holds shorter passes only
            some = [i for i, t in enumerate(passes) if chunk <= kept or t.num_tokens <= kept]
            same = all(np.array_equal(plain.run(passes[i]), truth[i]) for i in some)
        finally:
            gpu_pass.MLP_ROWS = kept
        yield {"name": f"MLP over {chunk} rows at a time", "passes": len(some), "equal": same}
    plain.close()

    runner = started(model, graphs=GraphSettings(tokens=4096), whole_s=0.008, group_s=0.002)
    yield {"name": "curve", **runner.describe()["pass_ms"]}
    yield {"name": "one at a time, long ones in groups", "rows": rows,
           "equal": _same(truth, [runner.run(tables) for tables in passes])}  # fmt: skip
    for name, found in (
        ("three in flight", _in_flight(runner, passes, 3)),
        ("short passes between the groups of long ones", _between(runner, passes)),
    ):
        yield {"name": name, "rows": rows, "equal": _same(truth, found)}
    trunks = runner._passes.trunks
    for key in list(trunks._held)[::2]:
        trunks.evict(key)
    for _ in range(MISSES_BEFORE_RECAPTURE):  # short buckets come back between parts of long passes
        found = _between(runner, passes)
        yield {"name": "the same after eviction", "rows": rows, "equal": _same(truth, found),
               "graphs": dict(trunks.describe())}  # fmt: skip
    yield {"name": "launches", **runner.describe()["launches"]["passes"],
           "compilations": runner.describe()["compilations_since_ready"],
           **runner.describe()["device_time"]}  # fmt: skip
    runner.close()


def _same(truth: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(truth, found, strict=True))


def _in_flight(runner: GpuRunner, passes: Sequence[PassTables], depth: int) -> list[np.ndarray]:
    flying: list[Any] = []
    found = []
    for tables in passes:
        flying.append(runner.submit(tables))
        if len(flying) == depth:
            found.append(flying.pop(0).take())
    return found + [launch.take() for launch in flying]


def _between(runner: GpuRunner, passes: Sequence[PassTables]) -> list[np.ndarray]:
    """Every long pass with short ones between any two of its parts."""
    found: list[np.ndarray | None] = [None] * len(passes)
    long = [i for i, t in enumerate(passes) if t.num_tokens > runner.whole_tokens]
    short = [i for i in range(len(passes)) if i not in long]
    turn = 0
    for at in long:
        launch = runner.begin(passes[at])
        while launch.enqueue():
            other = short[turn % len(short)]
            found[other] = runner.submit(passes[other]).take()
            turn += 1
        found[at] = launch.take()
    for at in short:
        if found[at] is None:
            found[at] = runner.run(passes[at])
    return [scores for scores in found if scores is not None]


def memory() -> Iterator[dict[str, Any]]:
    """A 65,536-token row on a device set up for it; limits no device holds are refused."""
    model = decision(served(recipe("open-jev-9b", layers=8)))
    runner = started(model, GpuLimits(tokens=65536, segments=4096, states=64), graphs=None)
    tables = one_row(65536, VOCABULARY)
    began = time.perf_counter()
    launch = runner.begin(tables)
    parts = 1
    while launch.enqueue():
        parts += 1
    scores = launch.take()
    said = runner.describe()
    yield {"name": "65536-token row, 8 layers", "finite": bool(np.isfinite(scores).all()),
           "seconds": round(time.perf_counter() - began, 3), "device_s": round(launch.seconds, 3),
           "parts": parts, "memory": said["memory"], "selfcheck": said["selfcheck"]}  # fmt: skip
    runner.close()
    try:
        started(model, GpuLimits(tokens=4_000_000), graphs=None).close()
        refused = "started"
    except ConfigError as error:
        refused = str(error)
    yield {"name": "limits beyond the device", "refused": refused}


PARTS = {
    "bits": bits,
    "memory": memory,
    "engine": lambda: engine_rows(seconds=6.0),
    "path": lambda: engine_rows(seconds=0.0, path=True),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    failed = []
    for part in args.parts:
        try:
            for row in PARTS[part]():
                rows.append(row)
                say("  ".join(f"{k}={v}" for k, v in row.items()))
        except Exception:
            failed.append(part)
            traceback.print_exc(limit=-6)
        gc.collect()
        torch.cuda.empty_cache()
        report = {"commit": args.commit, **machine(), "overlap": rows, "failed": failed}
        target = Path(os.environ.get("OUT", ".")) / "gpu_overlap.json"
        target.write_text(json.dumps(report, indent=1))
    raise SystemExit(bool(failed) or any(row.get("equal") is False for row in rows))


if __name__ == "__main__":
    main()
