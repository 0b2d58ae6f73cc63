"""What is switched around device work: our stream, inference mode, a lost device's error.

Entered for every part of every pass, so made once and without the generators, objects and look-ups
of torch's own context managers. One thread at a time, never inside itself.
"""

from __future__ import annotations

from types import TracebackType

import torch

from systone.errors import EngineDownError

__all__ = ["Switches"]


class Switches:
    """A context manager. Eager products switch torch's BLAS themselves: a replay needs no switch,
    and seven of them cost 0.14 ms."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream
        self._inference = torch.inference_mode()
        self._before: torch.cuda.Stream | None = None

    def __enter__(self) -> None:
        assert self._before is None
        self._inference.__enter__()
        self._before = torch.cuda.current_stream(self._stream.device)
        torch.cuda.set_stream(self._stream)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raises EngineDownError where the device was lost."""
        before, self._before = self._before, None
        assert before is not None
        torch.cuda.set_stream(before)
        self._inference.__exit__(kind, error, trace)
        if isinstance(error, torch.AcceleratorError):
            raise EngineDownError(f"device {self._stream.device} failed: {error}") from error
