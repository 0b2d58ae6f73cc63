"""Where the time of one request goes at one in flight: every step of its way, by wrapping it.

Rows: {name, ...}: microseconds, medians over requests of about 200 tokens. A step's time includes
the steps inside it; wrapping costs each about a microsecond.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any

from systone import pipeline
from systone.bench.workloads import load_workload
from systone.engine import Engine
from systone.execute import (
    gpu_clock,
    gpu_launch,
    gpu_runner,
    graph_cuda,
    graph_outputs,
    graph_passes,
    graph_stage,
    pass_flight,
    passes,
)
from systone.models.open_jev.adapter import OpenJevAdapter
from systone.models.qwen_tokens import QwenTokenizer
from systone.plan import memo
from systone.protocol import jsontext, systemone
from systone.schedule import loop
from systone.schedule.scheduler import Scheduler

STEPS: tuple[tuple[Any, str], ...] = (
    (pipeline, "prepare"), (OpenJevAdapter, "prepare"), (QwenTokenizer, "encode_batch"),
    (passes, "cut_passes"), (memo.TablesMemo, "of"), (graph_stage, "work_arrays"),
    (graph_stage.PassStage, "load"), (graph_cuda.CudaGraph, "replay"),
    (graph_outputs.Outputs, "send"), (gpu_launch.GpuLaunch, "enqueue"),
    (gpu_clock.GpuClock, "add"), (graph_outputs.Pending, "take"), (pass_flight.PassFlight, "_shares"),
    (passes.PassExecutor, "begin"), (pass_flight.PassFlight, "enqueue"),
    (gpu_launch.GpuLaunch, "take"), (pass_flight.PassFlight, "_account"),
    (loop._Loop, "_enqueue"), (loop._Loop, "conclude"), (pipeline, "finish"),
    (Scheduler, "admit"), (Scheduler, "settle"), (graph_passes.GraphedPasses, "_trunk_key"),
)  # fmt: skip
REQUESTS = 150


def path_rows(engine: Engine, target: str) -> Iterator[dict[str, Any]]:
    """The steps of requests sent one after the other."""
    workload = load_workload("synthetic-200", tokenizer=None, target=target, seed=0)
    order = random.Random(5).sample(range(len(workload.items)), len(workload.items))
    made = [workload.make(i, v) for v in range(9) for i in order][: 2 * REQUESTS]
    requests = [systemone.parse(jsontext.dumps(body), dialect="default") for body in made]
    for request in requests[:REQUESTS]:  # first, nothing wrapped
        engine.submit(request).result()
    yield {"name": "one at a time, nothing wrapped", **_walls(engine, requests[:REQUESTS])}
    took: dict[str, list[float]] = defaultdict(list)
    with ExitStack() as stack:
        for owner, name in STEPS:
            stack.enter_context(_timed(owner, name, took))
        stack.enter_context(_running(took))
        walls = _walls(engine, requests[REQUESTS:])
    yield {"name": "one at a time, wrapped", **walls}
    yield {"name": "steps", **{k: round(median(v), 1) for k, v in took.items()}}
    calls = {k: round(len(v) / REQUESTS, 2) for k, v in took.items() if len(v) != REQUESTS}
    yield {"name": "calls a request where not one", **calls}


def _walls(engine: Engine, requests: list[Any]) -> dict[str, Any]:
    """Whole requests, and where their stamps put the time."""
    walls, steps, device = [], defaultdict(list), _busy_s(engine)
    for request in requests:
        began = time.perf_counter()
        pending = engine.submit(request)
        pending.result()
        walls.append(1e6 * (time.perf_counter() - began))
        for name, seconds in pending.stamps.durations_s().items():
            steps[name].append(1e6 * seconds)
    busy = 1e6 * (_busy_s(engine) - device) / len(requests)
    return {"wall_us": round(median(walls), 1), "gpu_us": round(busy, 1),
            **{f"{k}_us": round(median(v), 1) for k, v in steps.items()}}  # fmt: skip


def _busy_s(engine: Engine) -> float:
    said = engine.health().models[0].modes.get("device_time")
    return said["busy_s"] if said else 0.0


@contextmanager
def _timed(owner: Any, name: str, took: dict[str, list[float]]) -> Iterator[None]:
    known = getattr(owner, name)
    label = f"{owner.__name__.rsplit('.', 1)[-1]}.{name}"

    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return known(*args, **kwargs)
        finally:
            took[label].append(1e6 * (time.perf_counter() - began))

    setattr(owner, name, timed)
    try:
        yield
    finally:
        setattr(owner, name, known)


@contextmanager
def _running(took: dict[str, list[float]]) -> Iterator[None]:
    """Entering and leaving the switches around device work."""
    known: Callable[..., Any] = gpu_runner.GpuRunner._running

    @contextmanager
    def timed(self: Any) -> Iterator[None]:
        began = time.perf_counter()
        with known(self):
            entered = time.perf_counter()
            yield
            left = time.perf_counter()
        took["GpuRunner._running"].append(1e6 * (entered - began + time.perf_counter() - left))

    gpu_runner.GpuRunner._running = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        gpu_runner.GpuRunner._running = known  # type: ignore[method-assign]
