"""Captures launches on one CUDA stream as graphs that share a memory pool.

What is captured allocates nothing itself: the pool holds only what libraries want while they are
captured. Bytes are what the device has less of after a capture, as far as that can be the graph's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import torch

from systone.errors import EngineDownError
from systone.execute.graph_store import CaptureError

# Of a graph, beside what torch reserves for its capture: 61 graphs of a 9B take 56 MiB in all.
_MOST_BYTES = 64 * 2**20


def bytes_of(lost: int, reserved: int) -> int:
    """A graph's bytes, when the device has lost so many while it was captured and torch reserved so
    many: another process may take memory in the same moment, and costs nobody a graph."""
    return min(max(0, lost), max(0, reserved) + _MOST_BYTES)


class CudaGraph:
    """One captured run of launches."""

    def __init__(self, graph: torch.cuda.CUDAGraph, num_bytes: int) -> None:
        self._graph = graph
        self._num_bytes = num_bytes

    @property
    def num_bytes(self) -> int:
        return self._num_bytes

    def replay(self) -> None:
        """On the current stream."""
        self._graph.replay()

    def release(self) -> None:
        self._graph.reset()


class CudaCapture:
    """Call `of` with the capturing stream current; never on the default stream."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()

    def of(self, launch: Callable[[], object]) -> CudaGraph:
        """`launch` runs once uncaptured, so that libraries and kernels are loaded, and once
        captured. Raises CaptureError, or EngineDownError when the device is lost with it."""
        graph = torch.cuda.CUDAGraph()
        free, reserved = self._free(), torch.cuda.memory_reserved(self._device)
        try:
            launch()
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                launch()
            except BaseException:
                with suppress(RuntimeError):  # the first fault is the one to report
                    graph.capture_end()
                raise
            graph.capture_end()
            torch.cuda.synchronize(self._device)
        except RuntimeError as error:
            self._require_alive(error)
            raise CaptureError(str(error).splitlines()[0]) from error
        reserved = torch.cuda.memory_reserved(self._device) - reserved
        return CudaGraph(graph, bytes_of(free - self._free(), reserved))

    def _free(self) -> int:
        return torch.cuda.mem_get_info(self._device)[0]

    def _require_alive(self, error: RuntimeError) -> None:
        try:
            torch.cuda.synchronize(self._device)
        except RuntimeError as lost:
            raise EngineDownError(
                f"device {self._device} failed while capturing: {error}"
            ) from lost
