"""Whether a request can still be answered by its deadline, by the models' learned time curves.

A request waits for the batch on the device, for its own model's queue, and for the other models'
turns: under round-robin those take at most as long as its own model does, plus one quantum.
The rule when nothing is queued or running: accept. Such a request delays nobody, and its batch is
what corrects a curve that had grown too slow, so refusals can't feed on themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from systone.errors import CapacityError, DeadlineError
from systone.schedule.lane import Lane

if TYPE_CHECKING:
    from systone.models.base import Cost

__all__ = ["Admission"]

MIN_RETRY_S = 1.0  # clients read Retry-After in whole seconds


class Admission:
    """The bound on undispatched requests and the forecast of their wait.

    Not thread-safe; the scheduler holds its lock. `running_s`: what the batch on the device is
    expected to take still, None if there is none."""

    def __init__(self, lanes: Mapping[str, Lane], max_queue: int, quantum_s: float) -> None:
        self._lanes = lanes
        self._max_queue = max_queue
        self._quantum_s = quantum_s

    def require_room(self, running_s: float | None) -> None:
        """Raises CapacityError (429) if `max_queue` accepted requests await dispatch."""
        if self._undispatched() >= self._max_queue:
            wait_s = sum(lane.backlog_s() for lane in self._lanes.values()) + (running_s or 0.0)
            raise CapacityError(
                f"the queue is full ({self._max_queue} requests)",
                retry_after_s=_retry_s(wait_s),
                status=429,
            )

    def require_in_time(
        self, lane: Lane, cost: Cost | None, left_s: float, running_s: float | None
    ) -> None:
        """Raises if a request that joins `lane` now would end after its deadline, `left_s` ahead:
        DeadlineError if that has passed, else CapacityError (503). `cost` None: a typical one."""
        if left_s <= 0.0:
            raise DeadlineError("the deadline passed before the request was accepted")
        if running_s is None and not self._undispatched():
            return
        need_s = self._wait_s(lane) + lane.own_s(cost) + (running_s or 0.0)
        if need_s > left_s:
            raise CapacityError(
                f"can't be answered in time: about {need_s:.2f} s of work, {left_s:.2f} s left",
                retry_after_s=_retry_s(need_s - left_s),
                status=503,
            )

    def _undispatched(self) -> int:
        count = 0
        for lane in self._lanes.values():
            count += lane.num_undispatched
        return count

    def _wait_s(self, lane: Lane) -> float:
        own_s = lane.backlog_s()
        most_s = own_s + self._quantum_s
        return own_s + sum(
            min(other.backlog_s(), most_s) for other in self._lanes.values() if other is not lane
        )


def _retry_s(seconds: float) -> float:
    return max(MIN_RETRY_S, float(math.ceil(seconds)))
