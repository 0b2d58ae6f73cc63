"""What is switched around device work: our stream, inference mode, a lost device's error.

Entered for every part of every pass, by a thread that slept since the last one: torch's own context
managers took 84 us there, in look-ups that end in the very calls made here. One thread at a time,
never inside itself.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch

from systone.errors import EngineDownError

__all__ = ["Switches"]

_torch: Any = torch._C


class Switches:
    """A context manager. Eager products switch torch's BLAS themselves: a replay needs no switch,
    and seven of them cost 0.14 ms."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self.stream = stream
        self._ours = (stream.stream_id, stream.device_index, stream.device_type)
        self._before: tuple[int, int, int] | None = None
        self._inference: Any = None

    def __enter__(self) -> None:
        assert self._before is None
        self._inference = _torch._InferenceMode(True)
        self._inference.__enter__()
        self._before = _torch._cuda_getCurrentStream(self._ours[1])
        _set_stream(*self._ours)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raises EngineDownError where the device was lost."""
        before, self._before = self._before, None
        assert before is not None
        _set_stream(*before)
        self._inference.__exit__(kind, error, trace)
        if isinstance(error, torch.AcceleratorError):
            raise EngineDownError(f"device {self.stream.device} failed: {error}") from error


def _set_stream(stream_id: int, device_index: int, device_type: int) -> None:
    _torch._cuda_setStream(stream_id=stream_id, device_index=device_index, device_type=device_type)
