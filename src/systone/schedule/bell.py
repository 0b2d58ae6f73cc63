"""What the device thread sleeps on: one thread sleeps, any other wakes it.

A queue of rings rather than a condition: who rings holds no lock that the woken thread needs next,
so waking takes one switch between threads. Seconds.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue

__all__ = ["Bell"]


class Bell:
    """A ring that nobody sleeps through ends the next sleep at once, so none is lost."""

    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()

    def ring(self) -> None:
        self._rings.put(None)

    def sleep(self, timeout_s: float | None) -> bool:
        """Until a ring; False after `timeout_s` without one."""
        try:
            self._rings.get(timeout=timeout_s)
        except Empty:
            return False
        return True
