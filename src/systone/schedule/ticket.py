"""One accepted request on its way through the scheduler: its future, deadline, cost and stamps.

Knows nothing of what the request says or how it is answered. The scheduler alone changes a
ticket's phase, under its lock; workers only write the stamps of the step they are running.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from systone.models.base import Cost

__all__ = ["Phase", "Stamps", "Ticket"]


class Phase(Enum):
    """Where a ticket is; it only moves forward, and SETTLED is reached exactly once."""

    PREPARING = "preparing"  # a worker is checking and tokenising it
    WAITING = "waiting"  # in its model's queue
    RUNNING = "running"  # handed to the device, or being finished: no longer cancellable
    SETTLED = "settled"  # its future has its outcome, or the caller cancelled


@dataclass(slots=True)
class Stamps:
    """When each step of one request began or ended, in clock seconds; 0.0 until it happened.
    `alone`: nothing else waited for the thread that finished it."""

    prepare_start: float = 0.0
    prepare_end: float = 0.0
    dispatched: float = 0.0
    device_end: float = 0.0
    finish_start: float = 0.0
    finish_end: float = 0.0
    alone: bool = False

    def durations_s(self) -> dict[str, float]:
        """Seconds in each step that ended, in order. `queue` is the wait for a worker and then
        for the device; both ends of every other step are the worker's own."""
        spans: dict[str, float] = {}
        if self.prepare_end:
            spans["prepare"] = self.prepare_end - self.prepare_start
        if self.dispatched:
            spans["queue"] = self.dispatched - self.prepare_end
        if self.device_end:
            spans["device"] = self.device_end - self.dispatched
        if self.finish_end:
            spans["finish"] = self.finish_end - self.finish_start
        return spans


@dataclass(slots=True, eq=False)
class Ticket:
    """`lane`: the served model's name. `deadline`: when it must be dispatched by, or None.

    `work` is what the executor reads; it is dropped with the ticket's outcome so that a caller who
    keeps the future doesn't keep the tokens. `at_once`: so little text, and nobody else about, that
    the thread which brought it should prepare it: a hand-over to a worker would cost more.
    `rehearse` prepares it once more and changes nothing: see `awake.Rehearsal`."""

    lane: str
    deadline: float | None
    future: Future[Any]
    stamps: Stamps
    phase: Phase = Phase.PREPARING
    cost: Cost | None = None
    work: Any = field(default=None, repr=False)
    size: int = 0  # characters
    at_once: bool = False
    rehearse: Callable[[], object] | None = field(default=None, repr=False)

    def overdue(self, now: float) -> bool:
        return self.deadline is not None and now >= self.deadline
