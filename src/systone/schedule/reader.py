"""The thread that waits for the device, part by part, while the device thread forms the next batch.

Knows the order of what was enqueued, and nothing of what is done with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from systone.models.base import Flight
    from systone.schedule.budget import Batch

__all__ = ["Flying", "Reader"]

CLOSE_S = 2.0  # a device that doesn't finish what it has in that time is left to the process's end


@dataclass(slots=True, eq=False)
class Flying:
    """A batch between its dispatch and its results. `seconds`: of the device, so far."""

    batch: Batch
    works: Sequence[Any]
    flight: Flight | None = None
    parts: int = 0
    seconds: float = 0.0
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    flying: Flying
    began: float
    enqueued: bool  # else there is nothing to wait for
    last: bool


class Reader:
    """`wait(flying, began)` returns when the next part of a batch is done; `conclude(flying,
    alone)` follows the last one, `alone` if nothing else waits to be read. If either raises, it is
    a fault of ours: `crashed` is told, and the rest is still read."""

    def __init__(
        self,
        wait: Callable[[Flying, float], None],
        conclude: Callable[[Flying, bool], None],
        crashed: Callable[[BaseException], None],
    ) -> None:
        self._wait = wait
        self._conclude = conclude
        self._crashed = crashed
        self._parts: SimpleQueue[_Part | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._read, name="systone-reader", daemon=True)
        self._thread.start()

    def put(self, flying: Flying, began: float, *, enqueued: bool, last: bool) -> None:
        """A part was given to the device at `began`."""
        self._parts.put(_Part(flying, began, enqueued, last))

    def close(self) -> None:
        """Read what was put, then end the thread."""
        self._parts.put(None)
        self._thread.join(CLOSE_S)

    def _read(self) -> None:
        while (part := self._parts.get()) is not None:
            try:
                if part.enqueued:
                    self._wait(part.flying, part.began)
                if part.last:
                    self._conclude(part.flying, self._parts.empty())
            except BaseException as error:  # the thread's border: see crashed
                self._crashed(error)
            del part  # else the last batch's data lives until the next one comes
