#!/usr/bin/env python
"""Latency of systone-mini in process: one Choice of five options, cached and cold, alone and busy.

    scripts/bench_mini.py [--threads N] [--rounds N]

Checks first that answers are the same cold and warm and prints no figure otherwise. A table for
people, then one line of JSON. Times are milliseconds from `prepare` to the finished decision; under
load callers wait for the one device thread, as they do in the engine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from systone.models import mini
from systone.models.base import Loaded
from systone.models.mini.pieces import WordPieces
from systone.protocol.types import Choice, Decision, Request

OPTIONS = {
    "billing": "Charges, refunds and invoices",
    "delivery": "Late, lost or damaged parcels",
    "access": "Passwords and logins",
    "product": "Something does not work",
    "sales": "Questions before buying",
}
STATE = "the courier left my parcel in the rain and the lid of the new kettle is broken now"
WARM, CLIENTS = 10, 32


def main() -> int:
    """Exit 1 when cold and warm answers differ."""
    parser = argparse.ArgumentParser(description="Latency of systone-mini in process.")
    parser.add_argument("--threads", type=int, default=None, help="threads of one forward")
    parser.add_argument("--rounds", type=int, default=200, help="timed requests of each case")
    options = parser.parse_args()
    loaded = mini.load(threads=options.threads)
    loaded.executor.start()
    short, long = request_of(loaded, 16), request_of(loaded, 128)
    if answer(loaded, short) != answer(loaded, short):
        print("cold and warm answers differ", file=sys.stderr)
        return 1
    figures = {
        "choice of 5, 16 pieces, options cached": alone(loaded, [short], options.rounds),
        "choice of 5, 128 pieces, options cached": alone(loaded, [long], options.rounds // 2),
        "choice of 5, 16 pieces, options cold": alone(loaded, cold(short, options.rounds // 4)),
        f"16 pieces, {CLIENTS} clients at once": busy(loaded, short, options.rounds * 2),
    }
    print(f"{'case':45}{'n':>6}{'p50':>9}{'p90':>9}{'p99':>9}{'max':>9}   ms")
    for name, row in figures.items():
        print(f"{name:45}{row['n']:6.0f}" + "".join(f"{row[k]:9.2f}" for k in COLUMNS))
    described = loaded.executor.describe()
    environment = {
        "threads": described["threads"],
        "processors": os.cpu_count(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }
    print(json.dumps({"revision": loaded.adapter.card.revision, **environment, "ms": figures}))
    loaded.executor.close()
    return 0


COLUMNS = ("p50", "p90", "p99", "max")


def request_of(loaded: Loaded, pieces: int) -> Request:
    """The Choice of five over a state of exactly so many word pieces."""
    words = STATE.split()
    state = " ".join(words[i % len(words)] for i in range(pieces))
    tokenizer: WordPieces = loaded.adapter._pieces  # type: ignore[attr-defined]
    if len(tokenizer.read(state)) != pieces:
        raise AssertionError("every word of the state has to be one piece")
    return Request(state, {"desk": Choice("Which desk should answer?", OPTIONS)})


def cold(request: Request, count: int) -> list[Request]:
    """The same request with options nobody has asked before."""
    return [
        Request(
            request.state,
            {"desk": Choice(None, {n: f"{d}, desk {i}" for n, d in OPTIONS.items()})},
        )
        for i in range(count)
    ]


def answer(loaded: Loaded, request: Request, device: threading.Lock | None = None) -> Decision:
    """One request through the three stages; `device` stands for the engine's device thread."""
    prepared = loaded.adapter.prepare(request)
    with device or threading.Lock():
        (readout,) = loaded.executor.execute([prepared])
    if isinstance(readout, Exception):
        raise readout
    return loaded.adapter.finish(prepared, readout)


def alone(loaded: Loaded, requests: Sequence[Request], rounds: int = 1) -> dict[str, float]:
    """One at a time; warm-ups only where requests repeat."""
    for _ in range(WARM if rounds > 1 else 0):
        answer(loaded, requests[0])
    return percentiles([timed(loaded, r, None) for _ in range(rounds) for r in requests])


def busy(loaded: Loaded, request: Request, count: int) -> dict[str, float]:
    """A closed loop of CLIENTS callers."""
    device = threading.Lock()
    with ThreadPoolExecutor(CLIENTS) as pool:
        return percentiles(list(pool.map(lambda _: timed(loaded, request, device), range(count))))


def timed(loaded: Loaded, request: Request, device: threading.Lock | None) -> float:
    """Milliseconds of one request."""
    begin = time.perf_counter()
    answer(loaded, request, device)
    return (time.perf_counter() - begin) * 1e3


def percentiles(times: list[float]) -> dict[str, float]:
    """n, median, 90th, 99th percentile (nearest rank) and the largest."""
    ordered = sorted(times)
    ranks = {
        name: ordered[min(len(ordered) - 1, int(share * len(ordered)))]
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
    }
    return {"n": float(len(ordered)), **ranks, "max": ordered[-1]}


if __name__ == "__main__":
    sys.exit(main())
