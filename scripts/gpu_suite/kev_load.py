"""A Kev under load, every request a new one: closed loops through the engine and over HTTP.

Times are milliseconds of wall clock as a caller sees them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from scripts.gpu_suite.kev_requests import as_sent, writer_of
from systone import Engine
from systone.config import ServerConfig
from systone.models.base import Loaded
from systone.server.app import create_app
from systone.server.listener import bind, http_server, url_of


def load_rows(engine: Engine, loaded: Loaded, seconds: float) -> Iterator[dict[str, Any]]:
    """A closed loop of 64 threads through the engine, every request new."""
    writer = writer_of(loaded)
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


def http_rows(engine: Engine, loaded: Loaded, count: int) -> Iterator[dict[str, Any]]:
    """The same requests over HTTP, each a new one: a server over the engine in this process, and
    `systone bench` in one of its own."""
    writer = writer_of(loaded)
    scratch = Path(tempfile.mkdtemp())
    lines = [json.dumps(as_sent(writer.request(60, 6, 30))) for _ in range(count)]
    (scratch / "kev.jsonl").write_text("\n".join(lines) + "\n")
    config = ServerConfig()
    sock = bind("127.0.0.1", 0)
    server = http_server(create_app(engine, config), config)
    thread = threading.Thread(target=lambda: uvloop.run(server.serve(sockets=[sock])))
    thread.start()
    bench = "import sys; from systone.cli import main; sys.exit(main())"
    ran = subprocess.run(
        [sys.executable, "-c", bench, "bench", url_of(sock), "--workload", f"{scratch}/kev.jsonl",
         "--concurrency", "64", "--rounds", "1", "--out", f"{scratch}/run"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    server.should_exit = True
    thread.join()
    if ran.returncode:
        raise RuntimeError(f"systone bench: {ran.stdout[-500:]} {ran.stderr[-1500:]}")
    for level in json.loads(ran.stdout.splitlines()[-1])["levels"]:
        yield {"name": "over HTTP, state 60, 6 questions of 30", **level}
