"""What the device thread sleeps on: one thread sleeps, others wake it, or send it on an errand.

A queue of rings rather than a condition: who rings holds no lock that the woken thread needs next,
so waking takes one switch between threads. The scheduler calls what changes the state under its
lock. Seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from systone.schedule.awake import awake_until

__all__ = ["Bell", "Errand"]


@dataclass(frozen=True, slots=True)
class Errand:
    """A short job for the device thread between two batches; `run` reports its own errors."""

    run: Callable[[], None]


class Bell:
    """A ring that nobody sleeps through ends the next sleep at once, so none is lost.

    `asleep`: nobody has rung since the thread went to sleep. `stays_until`: before this time it
    only seems to sleep, and may be sent on an errand."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rings: SimpleQueue[None] = SimpleQueue()
        self._errand: Errand | None = None
        self.asleep = False
        self.stays_until = 0.0

    def ring(self) -> None:
        self._rings.put(None)

    def sleep(self, timeout_s: float | None) -> bool:
        """Until a ring; False after `timeout_s` without one. Without the scheduler's lock."""
        if timeout_s is None and awake_until(self._rung, self.stays_until, self._clock):
            timeout_s = 0.0
        try:
            self._rings.get(timeout=timeout_s)
        except Empty:
            return False
        return True

    def wakes(self) -> bool:
        """Whether to ring: once for each sleep is enough."""
        asleep, self.asleep = self.asleep, False
        return asleep

    def send(self, job: Callable[[], None]) -> bool:
        """Leave an errand for a thread that is idle and awake; False if it isn't."""
        if not self.asleep or self._errand is not None or self._clock() >= self.stays_until:
            return False
        self._errand = Errand(job)
        return True

    @property
    def has_errand(self) -> bool:
        return self._errand is not None

    def take_errand(self) -> Errand | None:
        errand, self._errand = self._errand, None
        return errand

    def _rung(self) -> bool:
        return not self._rings.empty()
