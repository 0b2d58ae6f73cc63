"""A thread that looks after what nobody is waiting on: stuck batches and passed deadlines.

A batch that holds the device longer than `max_batch_s`, and than `STRETCH` times what the model's
time curve expects of it (a large batch on a slow device is no freeze), means a frozen worker: the
engine fails, its callers get their error at once, and only a new process serves again. Time in
which the whole process stood still (stopped, or a container paused) is nobody's: this thread slept
through it as well. Deadlines pass also while a batch runs, so waiting requests are expired here, at
most `TICK_S` late.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from systone.schedule.scheduler import Scheduler

__all__ = ["Watchdog"]

TICK_S = 0.05
STRETCH = 10.0
STOOD_STILL_S = 5.0  # from one look to the next: no load does that

log = logging.getLogger("systone.schedule")


class Watchdog:
    """`max_batch_s`: the stated limit on one batch. `clock`: the scheduler's."""

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Callable[[], float],
        *,
        max_batch_s: float,
        tick_s: float = TICK_S,
    ) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._max_batch_s = max_batch_s
        self._tick_s = tick_s
        self._looked = clock()
        self._still: list[tuple[float, float]] = []  # (when it ended, seconds), under a batch
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="systone-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def look(self) -> None:
        """One round of checks."""
        self._scheduler.expire()
        held_s, expected_s = self._scheduler.running_s()
        held_s -= self._still_s(held_s)
        if held_s > max(self._max_batch_s, STRETCH * expected_s):
            log.error("a batch has held the device for %.1f s", held_s)
            self._scheduler.fail(f"device worker frozen: one batch ran for {held_s:.1f} s")

    def _still_s(self, held_s: float) -> float:
        """Seconds of the last `held_s` in which the process stood still. The clock is read after
        `held_s` was, so that no pause is in that and unknown here."""
        now = self._clock()
        if now - self._looked > STOOD_STILL_S:
            self._still.append((now, now - self._looked))
        self._looked = now
        self._still = [(end, seconds) for end, seconds in self._still if end > now - held_s]
        return min(held_s, sum(seconds for _, seconds in self._still))

    def _watch(self) -> None:
        while not self._stop.wait(self._tick_s):
            self.look()
