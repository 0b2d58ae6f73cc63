"""What the device has been given and not yet done: at most two parts, so that it never runs dry.

A part is a batch, or a piece of a long one. The next is formed late, so that requests which arrive
meanwhile join it, but early enough to be enqueued before the device is idle; at once if it can't
take any more. Seconds; not thread-safe, the scheduler holds its lock.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

__all__ = ["RESUME", "Occupancy", "Resume"]

DEPTH = 2
LEAD_S = 0.002  # to wake up, form and enqueue a batch
LEAD_SHARE = 0.15  # of a part's expected time: how far off the expectation may be


class Resume(Enum):
    """The turn of a long batch's next part."""

    RESUME = "resume"


RESUME = Resume.RESUME


class Occupancy:
    """Parts in the order they were enqueued."""

    def __init__(self) -> None:
        self._expected_s: deque[float] = deque()
        self._dry_at = 0.0

    def __len__(self) -> int:
        return len(self._expected_s)

    @property
    def full(self) -> bool:
        return len(self._expected_s) >= DEPTH

    def add(self, expected_s: float, now: float) -> None:
        """A part was enqueued that should hold the device for so long."""
        self._dry_at = (max(self._dry_at, now) if self._expected_s else now) + expected_s
        self._expected_s.append(expected_s)

    def remove(self, now: float) -> None:
        """The oldest part is done."""
        self._expected_s.popleft()
        self._dry_at = now + sum(self._expected_s)

    def turn_in_s(
        self, now: float, *, waiting: bool, filled: bool, resumable: bool
    ) -> float | None:
        """Seconds until the device should be given more, None: it can't be yet. `waiting`: whether
        requests are; `filled`: more than a batch holds, `resumable`: a long batch has parts left,
        neither of which gains by waiting."""
        if self.full or not (waiting or resumable):
            return None
        return 0.0 if filled or resumable else self.hold_s(now)

    def hold_s(self, now: float) -> float:
        """How long the next batch may still wait for more requests."""
        if not self._expected_s:
            return 0.0
        lead_s = LEAD_S + LEAD_SHARE * self._expected_s[-1]
        return max(0.0, self._dry_at - lead_s - now)
