"""Where the time of one request goes at one in flight: every step of its way, by wrapping it.

Rows: {name, ...}: microseconds, medians over requests of about 200 tokens, and over the commonest
of the 231-shape. A step's time includes the steps inside it; wrapping costs each about 1 us.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any

from systone import pipeline
from systone.bench.workloads import load_workload
from systone.engine import Engine
from systone.execute import (
    gpu_clock,
    gpu_launch,
    gpu_switches,
    graph_cuda,
    graph_outputs,
    graph_stage,
    pass_flight,
    passes,
)
from systone.models.open_jev.adapter import OpenJevAdapter
from systone.models.qwen_tokens import QwenTokenizer
from systone.plan import memo
from systone.protocol import jsontext, systemone
from systone.protocol.types import Request
from systone.schedule import loop
from systone.schedule.scheduler import Scheduler

STEPS: tuple[tuple[Any, str], ...] = (
    (pipeline, "prepare"), (OpenJevAdapter, "prepare"), (QwenTokenizer, "ids"),
    (passes, "cut_passes"), (memo.TablesMemo, "of"), (graph_stage, "work_arrays"),
    (graph_stage.PassStage, "load"), (graph_cuda.CudaGraph, "replay"),
    (graph_outputs.Outputs, "send"), (gpu_launch.GpuLaunch, "enqueue"),
    (gpu_clock.GpuClock, "add"), (graph_outputs.Pending, "take"),
    (pass_flight.PassFlight, "_shares"),
    (passes.PassExecutor, "begin"), (pass_flight.PassFlight, "enqueue"),
    (gpu_launch.GpuLaunch, "take"), (pass_flight.PassFlight, "_account"),
    (loop._Loop, "_enqueue"), (loop._Loop, "conclude"), (pipeline, "finish"),
    (gpu_switches.Switches, "__enter__"), (gpu_switches.Switches, "__exit__"),
    (gpu_clock.GpuClock, "settle"), (gpu_clock.Span, "begin"), (gpu_clock.Span, "wait"),
    (Scheduler, "admit"), (Scheduler, "settle"),
)  # fmt: skip
REQUESTS = 150


def path_rows(engine: Engine, target: str) -> Iterator[dict[str, Any]]:
    """The steps of requests sent one after the other."""
    for name in ("synthetic-200", "231-shape"):
        requests = _requests(name, target)
        for request in requests[:REQUESTS]:  # first, nothing wrapped
            engine.submit(request).result()
        walls = _walls(engine, requests[REQUESTS : 2 * REQUESTS])
        yield {"name": f"{name}, one at a time, nothing wrapped", **walls}
        took: dict[str, list[float]] = defaultdict(list)
        with ExitStack() as stack:
            for owner, step in STEPS:
                stack.enter_context(_timed(owner, step, took))
            walls = _walls(engine, requests[2 * REQUESTS :])
        yield {"name": f"{name}, one at a time, wrapped", **walls}
        yield {"name": "steps", **{k: round(median(v), 1) for k, v in took.items()}}
        calls = {k: round(len(v) / REQUESTS, 2) for k, v in took.items() if len(v) != REQUESTS}
        yield {"name": "calls a request where not one", **calls}


def _requests(name: str, target: str) -> list[Request]:
    """Requests of a workload's commonest size, each with a text of its own, in any order."""
    workload = load_workload(name, tokenizer=None, target=target, seed=0)
    sizes = Counter((item.kind, item.unique) for item in workload.items)
    ((common, _),) = sizes.most_common(1)
    places = [i for i, item in enumerate(workload.items) if (item.kind, item.unique) == common]
    made = [(i, variant) for variant in range(3 * REQUESTS // len(places) + 1) for i in places]
    random.Random(5).shuffle(made)
    return [
        systemone.parse(jsontext.dumps(workload.make(*each)), dialect="default")
        for each in made[: 3 * REQUESTS]
    ]


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
