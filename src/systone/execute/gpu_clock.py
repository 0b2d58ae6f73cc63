"""Device seconds of what a stream was given, and between, from events on that stream.

A span is opened before its first device work and closed after its last; the clock adds it up once
it has ended. Spans are opened and closed by one thread and read in that order by any. Seconds.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

import torch

__all__ = ["GpuClock", "Span"]


class Span:
    """From `begin` to `end` on the stream that was current. `end()` once, then `wait()`."""

    def __init__(self, stream: torch.cuda.Stream | None = None) -> None:
        """`stream`: the one that will be current; None: looked up at each end."""
        self._stream = stream
        self._began = _event()
        self._ended: torch.cuda.Event | None = None
        self._opened = False

    def begin(self) -> None:
        """Before the first device work; later calls change nothing."""
        if not self._opened:
            self._opened = True
            self._began.record(self._stream)

    def end(self) -> None:
        self.begin()
        self._ended = _event()  # not before: until `begin`, the device waits for the host
        self._ended.record(self._stream)

    def wait(self) -> None:
        """Until the device has done the span's work; after `end`. Any thread."""
        assert self._ended is not None
        self._ended.synchronize()

    def done(self) -> bool:
        """Whether `wait` would return at once."""
        assert self._ended is not None
        return bool(self._ended.query())  # type: ignore[no-untyped-call]

    def seconds(self) -> float:
        """Of a span that has ended."""
        assert self._ended is not None
        return float(self._began.elapsed_time(self._ended)) / 1e3

    def since(self, earlier: Span) -> float:
        """Device seconds between an earlier span's end and this one's begin."""
        assert earlier._ended is not None
        return float(earlier._ended.elapsed_time(self._began)) / 1e3


class GpuClock:
    """What a device did since it was ready: busy in spans, idle between two of them.

    Idle time before a span that nobody had asked for yet counts too: a share of idle time means
    something under load only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: deque[Span] = deque()  # idle time up to the first one is counted
        self._spans = 0
        self._busy_s = self._idle_s = self._longest_idle_s = 0.0

    def add(self, span: Span) -> float:
        """Count a span that has ended, after those before it; its seconds."""
        with self._lock:
            took_s = span.seconds()
            self._spans += 1
            self._busy_s += took_s
            self._ended.append(span)
            return took_s

    def settle(self) -> None:
        """Count the idle time between the spans added so far: apart from `add`, whose caller has
        somebody waiting."""
        with self._lock:
            while len(self._ended) > 1:
                earlier = self._ended.popleft()
                idle_s = max(0.0, self._ended[0].since(earlier))
                self._idle_s += idle_s
                self._longest_idle_s = max(self._longest_idle_s, idle_s)

    def describe(self) -> Mapping[str, Any]:
        self.settle()
        with self._lock:
            return {
                "parts": self._spans,
                "busy_s": round(self._busy_s, 6),
                "idle_s": round(self._idle_s, 6),
                "longest_idle_s": round(self._longest_idle_s, 6),
            }


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
