"""Bounds on time that a busy machine doesn't break and a fault still does."""

from __future__ import annotations

import time
from collections.abc import Callable


def within(limit_s: float, attempt: Callable[[], float]) -> None:
    """One of three attempts takes less: a busy machine slows one of them, a fault each of them.
    `attempt` returns the seconds it took."""
    taken: list[float] = []
    while not taken or taken[-1] >= limit_s:
        assert len(taken) < 3, f"took {taken} s, not less than {limit_s}"
        taken.append(attempt())


def seconds(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began
