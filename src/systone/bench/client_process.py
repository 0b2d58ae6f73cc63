"""The client in a process of its own: takes a block of encoded requests, gives back its outcomes.

Nothing else runs there: no progress bar, no text making, no garbage collection inside a block.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from types import TracebackType
from typing import Self

from systone.bench.asking import Outcome, ask
from systone.bench.loops import run_closed, run_open
from systone.bench.replies import Expectation
from systone.bench.wire import Address, Connection

__all__ = ["ClientProcess", "Job", "run_job"]

_PROGRESS_S = 0.2
_SWITCH_INTERVAL_S = 0.0002  # at the default of 5 ms one busy thread delays another's clock


@dataclass(frozen=True, slots=True)
class Job:
    """One block of requests. `due_ns`: arrival offsets of an open loop; None: a closed loop."""

    address: Address
    requests: tuple[bytes, ...]
    expected: tuple[Expectation, ...]
    concurrency: int
    due_ns: tuple[int, ...] | None = None
    timeout_s: float = 120.0


def run_job(job: Job, done: list[Outcome | None]) -> None:
    """Fill `done` with the outcome of every request of the job."""
    connections = [Connection(job.address, job.timeout_s) for _ in range(job.concurrency)]
    for connection in connections:
        try:
            connection.open()
        except OSError:
            break  # every request tries again, and its failure is recorded there

    def answer(worker: int, number: int, due_ns: int | None = None) -> Outcome:
        return ask(connections[worker], job.requests[number], job.expected[number], due_ns)

    gc.collect()
    gc.disable()
    try:
        if job.due_ns is None:
            run_closed(len(job.requests), job.concurrency, answer, done)
        else:
            run_open(job.due_ns, job.concurrency, answer, done)
    finally:
        gc.enable()
        for connection in connections:
            connection.close()


class ClientProcess:
    """Runs jobs one after another in a child process. A context manager."""

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pipe.close()
        if kind is None:
            self._process.join(5)
        if self._process.is_alive():  # an error, or an interrupt, may leave it inside a block
            self._process.terminate()
            self._process.join()

    def run(self, job: Job, progress: Callable[[int], None]) -> list[Outcome]:
        """`progress` gets the number of requests done so far, a few times a second.

        Raises RuntimeError with the child's traceback if the client itself broke."""
        self._pipe.send(job)
        while True:
            try:
                message = self._pipe.recv()
            except EOFError:
                raise RuntimeError("the client process ended") from None
            if isinstance(message, int):
                progress(message)
            elif isinstance(message, str):
                raise RuntimeError(f"the client broke:\n{message}")
            else:
                outcomes: list[Outcome] = message
                return outcomes


def _serve(pipe: Pipe) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    with suppress(EOFError, ConnectionError):  # the parent has closed its end
        while True:
            _take_job(pipe)


def _take_job(pipe: Pipe) -> None:
    job: Job = pipe.recv()
    done: list[Outcome | None] = [None] * len(job.requests)
    broken: list[str] = []
    thread = threading.Thread(target=_work, args=(job, done, broken))
    thread.start()
    while thread.is_alive():
        thread.join(_PROGRESS_S)
        pipe.send(sum(outcome is not None for outcome in done))
    pipe.send(broken[0] if broken else done)


def _work(job: Job, done: list[Outcome | None], broken: list[str]) -> None:
    try:
        run_job(job, done)
    except BaseException:  # the boundary of the process: told to the parent, which raises
        broken.append(traceback.format_exc())
