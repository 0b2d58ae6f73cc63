"""The engine's one truth about itself: starting, ready, draining or failed, and why.

Moves forward only: a failed engine stays failed until its process is replaced, because nothing
here can prove that a lost device is sound again. Not thread-safe; the scheduler holds its lock.
"""

from __future__ import annotations

from enum import Enum

from systone.errors import EngineDownError

__all__ = ["Condition", "Status"]


class Status(Enum):
    STARTING = "starting"  # loading, verifying, warming up
    READY = "ready"  # answers; it may be busy or queueing
    DRAINING = "draining"  # finishes what it accepted, takes nothing new
    FAILED = "failed"  # the device or its worker is lost; permanent


_ORDER = (Status.STARTING, Status.READY, Status.DRAINING, Status.FAILED)


class Condition:
    """A status with its reason (empty while ready)."""

    __slots__ = ("reason", "status")

    def __init__(self) -> None:
        self.status = Status.STARTING
        self.reason = "loading models"

    def move(self, status: Status, reason: str = "") -> bool:
        """Enter a later status; False if it is not later (the first reason of a failure stays)."""
        if _ORDER.index(status) <= _ORDER.index(self.status):
            return False
        self.status, self.reason = status, reason
        return True

    def require_ready(self) -> None:
        """Raises EngineDownError unless ready."""
        if self.status is not Status.READY:
            detail = f": {self.reason}" if self.reason else ""
            raise EngineDownError(f"the engine is {self.status.value}{detail}")
