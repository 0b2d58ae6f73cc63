"""A whole 9B under the engine: what a short request waits beside a long one, and idle time.

Rows: {name, ...}, milliseconds. Requests are prepared from texts, as callers send them; no HTTP.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from scripts.gpu_suite.overlap_path import path_rows
from systone.bench.tokenizer import find_tokenizer
from systone.bench.words import word_pool
from systone.bench.workloads import load_workload
from systone.config import EngineConfig, ModelSettings
from systone.engine import Engine
from systone.protocol import jsontext, systemone
from systone.protocol.types import Choice, Noul, Request

MODEL = "synth:open-jev-9b"
CLIENTS = 16
LONG_WORDS = 16_200  # each one token; the prompt around them takes less than 180


def engine_rows(
    seconds: float, model: str = MODEL, *, path: bool = False
) -> Iterator[dict[str, Any]]:
    """`seconds`: of the closed loop. `path`: the steps of single requests, and nothing else."""
    settings = ModelSettings(source=model, device="auto", max_length=16_384)
    began = time.perf_counter()
    with Engine([settings], EngineConfig(model=settings, max_queue=4096)) as engine:
        modes = _modes(engine)
        yield {"name": "start", "seconds": round(time.perf_counter() - began, 1),
               "memory": modes.get("memory"), "pass_ms": modes.get("pass_ms"),
               "batch_tokens": modes.get("batch_tokens"),
               "selfcheck": modes.get("selfcheck")}  # fmt: skip
        if path:
            yield from path_rows(engine, model)
            return
        yield from beside_rows(engine)
        yield from idle_rows(engine, seconds)


def _modes(engine: Engine) -> dict[str, Any]:
    return dict(engine.health().models[0].modes)


def beside_rows(engine: Engine) -> Iterator[dict[str, Any]]:
    """A 128-token request alone, then at random times beside a 16k-token row."""
    words = word_pool(_tokenizer()).pool
    rng = random.Random(1)

    def short() -> Request:
        text = " ".join(rng.choices(words, k=84))
        return Request(text, {"q": Noul(" ".join(rng.choices(words, k=12)))})

    def long() -> Request:
        text = " ".join(rng.choices(words, k=LONG_WORDS))
        return Request(text, {"q": Choice("Which?", {"only": None})})

    tokens = engine.submit(short()).result().usage.input_tokens
    alone = [_ms(engine, short()) for _ in range(30)]
    yield {"name": f"{tokens}-token request alone", "p50_ms": _at(alone, 50),
           "max_ms": _at(alone, 100)}  # fmt: skip
    answer = engine.submit(long()).result()
    longs = [_ms(engine, long()) for _ in range(2)]
    yield {"name": f"{answer.usage.input_tokens}-token row alone", "p50_ms": _at(longs, 50)}
    beside: list[float] = []
    slowed: list[float] = []
    for turn in range(8):
        began = time.perf_counter()
        row = engine.submit(long())
        time.sleep(0.02 + 0.03 * turn)
        while not row.done():
            beside.append(_ms(engine, short()))
            time.sleep(0.01)
        slowed.append(1e3 * (time.perf_counter() - began))
    bound = 2 * _at(alone, 50) + 60
    yield {"name": "beside a long row", "requests": len(beside), "p50_ms": _at(beside, 50),
           "max_ms": _at(beside, 100), "bound_ms": round(bound, 2),
           "within": _at(beside, 100) <= bound, "long_ms": _at(slowed, 50)}  # fmt: skip


def idle_rows(engine: Engine, seconds: float) -> Iterator[dict[str, Any]]:
    """Closed loops over the 231-shape: rates, and the share of time the device had nothing."""
    workload = load_workload("231-shape", tokenizer=None, target=MODEL, seed=0)
    bodies = [jsontext.dumps(workload.make(i, 0)) for i in range(len(workload.items))]
    requests = [systemone.parse(body, dialect="default") for body in bodies]
    random.Random(2).shuffle(requests)
    for clients in (CLIENTS, 1):
        before, lane = _modes(engine).get("device_time"), _lane(engine)
        batches, tokens = lane.batches, lane.tokens
        began = time.perf_counter()
        took = _closed_loop(engine, requests, clients, seconds if clients > 1 else seconds / 2)
        wall = time.perf_counter() - began
        after, lane = _modes(engine).get("device_time"), _lane(engine)
        row = {"name": f"231-shape, {clients} in flight", "requests": len(took),
               "per_second": round(len(took) / wall, 2), "mean_ms": round(float(np.mean(took)), 2),
               "p50_ms": _at(took, 50), "p95_ms": _at(took, 95), "batches": lane.batches - batches,
               "tokens_a_batch": (lane.tokens - tokens) // (lane.batches - batches)}  # fmt: skip
        if before is not None and after is not None:
            busy = after["busy_s"] - before["busy_s"]  # its idle time begins before the loop
            row |= {"busy_s": round(busy, 3), "wall_s": round(wall, 3),
                    "idle_share": round(1.0 - busy / wall, 4)}  # fmt: skip
        yield row
    modes = _modes(engine)
    yield {"name": "after", "launches": modes.get("launches"),
           "compilations": modes.get("compilations_since_ready")}  # fmt: skip


def _tokenizer() -> Any:
    return find_tokenizer(None, MODEL, needed=True)


def _lane(engine: Engine) -> Any:
    return next(iter(engine.tally().lanes.values()))


def _ms(engine: Engine, request: Request) -> float:
    began = time.perf_counter()
    engine.submit(request).result()
    return 1e3 * (time.perf_counter() - began)


def _closed_loop(
    engine: Engine, requests: Sequence[Request], clients: int, seconds: float
) -> list[float]:
    took: list[float] = []
    remaining, lock = iter(requests * 20), threading.Lock()
    end = time.perf_counter() + seconds

    def client() -> None:
        while time.perf_counter() < end:
            with lock:
                request = next(remaining)
            took.append(_ms(engine, request))

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


def _at(values: Sequence[float], percent: float) -> float:
    return round(float(np.percentile(values, percent)), 2)
