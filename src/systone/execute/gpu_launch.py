"""A pass on its way through the device: enqueued part by part, waited for part by part.

One thread enqueues; another may wait, part by part and in that order. R read-outs, W their width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from queue import SimpleQueue

import numpy as np
import torch
from numpy.typing import NDArray

from systone.errors import EngineDownError, EngineFaultError
from systone.execute.gpu_clock import GpuClock, Span
from systone.execute.graph_outputs import Outputs, Pending
from systone.execute.graph_passes import GraphedPasses
from systone.plan.tables import PassTables

__all__ = ["GpuLaunch"]


class GpuLaunch:
    """`tables`: one pass, or the passes that stand for it, whose scores are joined. `running`: the
    runner's switches around device work, `stream` what they switch to."""

    def __init__(
        self,
        passes: GraphedPasses,
        outputs: Outputs,
        clock: GpuClock,
        tables: Sequence[PassTables],
        running: AbstractContextManager[None],
        stream: torch.cuda.Stream | None = None,
    ) -> None:
        self._passes = passes
        self._outputs = outputs
        self._clock = clock
        self._tables = tables
        self._running = running
        self._stream = stream
        self._parts = self._enqueued()
        self._spans: SimpleQueue[Span] = SimpleQueue()
        self._oldest: Span | None = None  # taken from `_spans` to look at it
        self._pending: list[Pending] = []
        self.seconds = 0.0  # of the device, in the parts waited for
        self.more = True  # parts left to enqueue

    def enqueue(self) -> bool:
        """Enqueue the next part; False if it was the last. Raises EngineDownError, or
        EngineFaultError for a pass larger than the limits."""
        with self._running:
            self.more = next(self._parts)
        self._clock.settle()
        return self.more

    def done(self) -> bool:
        """Whether the next enqueued part is done, or the device has failed."""
        if self._oldest is None:
            self._oldest = self._spans.get_nowait()
        try:
            return self._oldest.done()
        except torch.AcceleratorError:
            return True  # as `wait` will say

    def wait(self) -> None:
        """Until the next enqueued part is done. Raises EngineDownError when the device failed."""
        span, self._oldest = self._oldest or self._spans.get_nowait(), None
        try:
            span.wait()
            self.seconds += self._clock.add(span)
        except torch.AcceleratorError as lost:
            raise EngineDownError(f"the device failed: {lost}") from lost

    def take(self) -> NDArray[np.float32]:
        """Scores [R, W]; waits for every part enqueued so far. Raises EngineDownError."""
        if self.more:
            raise EngineFaultError("scores of a pass that is not enqueued whole")
        while self._oldest is not None or not self._spans.empty():
            self.wait()
        try:
            taken = [pending.take() for pending in self._pending]
        except torch.AcceleratorError as lost:
            raise EngineDownError(f"the device failed: {lost}") from lost
        return taken[0] if len(taken) == 1 else np.concatenate(taken)

    def _enqueued(self) -> Iterator[bool]:
        """Enqueues a part a step; whether there are more."""
        last = len(self._tables) - 1
        for at, tables in enumerate(self._tables):
            span = self._opened()
            for scores in self._passes.parts(tables):
                if scores is None:
                    self._close(span)
                    yield True
                    span = Span(self._stream)
                    span.begin()
                    continue
                rows = tables.readout_token.shape[0]
                self._pending.append(self._outputs.send(scores[:rows]))
                self._close(span)
                yield at < last

    def _opened(self) -> Span:
        """A span that begins with the copy of a pass's tables, after the host has made them."""
        span = Span(self._stream)
        self._passes.on_copy(span.begin)
        return span

    def _close(self, span: Span) -> None:
        span.end()
        self._spans.put(span)
