"""Closed and open loops over any way to answer request number i.

Closed: `concurrency` workers, each asks the next request as soon as its last is answered. Open:
requests are due at given times whatever the server does; a worker sleeps until its request is due.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["arrivals_ns", "run_closed", "run_open"]

T = TypeVar("T")
LEAD_NS = 5_000_000  # from the start signal to the first due time


def run_closed(
    count: int, concurrency: int, answer: Callable[[int, int], T], done: list[T | None]
) -> None:
    """`answer(worker, i)` for every i below `count`, `concurrency` at a time; results go to
    `done[i]` as they come. Raises what `answer` raises, after all workers stopped."""
    numbers = itertools.count()  # next() on it is one step of the interpreter
    start = threading.Barrier(concurrency)

    def work(worker: int) -> None:
        start.wait()
        while (number := next(numbers)) < count:
            done[number] = answer(worker, number)

    _in_threads(concurrency, work)


def run_open(
    due_ns: Sequence[int],
    workers: int,
    answer: Callable[[int, int, int], T],
    done: list[T | None],
) -> None:
    """`answer(worker, i, due)` at the time each request is due, offsets in `due_ns` from the start
    signal. With every worker busy a request starts late; its latency counts from when it was due.
    """
    numbers = itertools.count()
    start = threading.Barrier(workers)
    began = [0]

    def work(worker: int) -> None:
        if start.wait() == 0:
            began[0] = time.perf_counter_ns() + LEAD_NS
        start.wait()
        while (number := next(numbers)) < len(due_ns):
            due = began[0] + due_ns[number]
            wait_ns = due - time.perf_counter_ns()
            if wait_ns > 0:
                time.sleep(wait_ns / 1e9)
            done[number] = answer(worker, number, due)

    _in_threads(workers, work)


def arrivals_ns(rate: float, count: int, seed: str) -> list[int]:
    """Offsets of `count` arrivals of a Poisson process of `rate` a second."""
    rng = random.Random(seed)
    gaps = (rng.expovariate(rate) for _ in range(count))
    return [round(at * 1e9) for at in itertools.accumulate(gaps)]


def _in_threads(workers: int, work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(workers, thread_name_prefix="bench-client") as pool:
        for future in [pool.submit(work, worker) for worker in range(workers)]:
            future.result()
