"""A fixed set of worker threads for the CPU steps, prepare and finish, off the device thread.

Smaller than an executor on purpose: no future per job and one queue hop, because a job reports its
own outcome. A job must not raise; one that does is a fault of ours, and `on_crash` is told.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

__all__ = ["WorkerPool"]

Job = Callable[[], None]


class WorkerPool:
    """`workers` daemon threads that run jobs in order of submission."""

    def __init__(self, name: str, workers: int, on_crash: Callable[[BaseException], None]) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._on_crash = on_crash
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{i}", daemon=True)
            for i in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, job: Job) -> None:
        self._jobs.put(job)

    def close(self, timeout_s: float = 5.0) -> None:
        """Let queued jobs finish, then end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout_s)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except BaseException as error:  # the worker's border: see on_crash
                self._on_crash(error)
            del job  # else the last request's data lives until the next one comes
