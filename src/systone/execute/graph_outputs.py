"""Scores on their way to the host: pinned slots that alternate, outside every graph's pool.

A pass in flight owns a slot until its scores are taken; one pass more than there are slots first
takes the oldest one's. R read-outs, W read-out width.
"""

from __future__ import annotations

import threading

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_SLOTS = 4


class Pending:
    """Scores FP32 [R, W] that a stream will have written."""

    def __init__(self, host: Tensor, ready: torch.cuda.Event) -> None:
        self._host: Tensor | None = host
        self._ready = ready
        self._scores: NDArray[np.float32] | None = None
        self._taking = threading.Lock()

    def take(self) -> NDArray[np.float32]:
        """Wait for the scores; a copy that no later pass writes to. Any thread, any number of
        times."""
        with self._taking:
            if self._scores is None:
                assert self._host is not None
                self._ready.synchronize()
                self._scores = self._host.numpy().copy()
                self._host = None
            return self._scores


class Outputs:
    """Sent by one thread on one stream."""

    def __init__(
        self, readouts: int, width: int = 1, stream: torch.cuda.Stream | None = None
    ) -> None:
        self._stream = stream
        self._hosts = [torch.empty(readouts, width, pin_memory=True) for _ in range(_SLOTS)]
        self._ready = [_event() for _ in range(_SLOTS)]
        self._waiting: list[Pending | None] = [None] * _SLOTS
        self._next = 0

    def send(self, scores: Tensor) -> Pending:
        """Enqueue the copy of device scores [R, W] behind the pass that computes them."""
        slot, self._next = self._next, (self._next + 1) % _SLOTS
        earlier = self._waiting[slot]
        if earlier is not None:
            earlier.take()
        host = self._hosts[slot][: scores.shape[0]]
        host.copy_(scores, non_blocking=True)
        self._ready[slot].record(self._stream)
        self._waiting[slot] = made = Pending(host, self._ready[slot])
        return made


def _event() -> torch.cuda.Event:
    return torch.cuda.Event()  # type: ignore[no-untyped-call]
