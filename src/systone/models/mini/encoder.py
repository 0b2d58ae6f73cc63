"""MiniLM: word piece ids to a unit vector, one text window per forward.

Owns the onnxruntime session; knows no question. A window is never padded and never shares a forward
with another, so its vector depends on its own ids alone. Vectors are float64 [384], of length one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from systone.errors import ConfigError
from systone.models.mini.pieces import Ids

__all__ = ["WIDTH", "Encoder", "dot", "dots", "thread_count"]

WIDTH = 384
_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
_MOST_THREADS = 4  # a forward of one short window gains nothing beyond


def thread_count() -> int:
    """Threads for one forward: the processors this process may use, at most four."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(_MOST_THREADS, allowed or 1))


def dot(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Inner product of two vectors, summed pairwise: no BLAS, so no kernel chosen by shape."""
    return float(np.sum(a * b))


def dots(rows: NDArray[np.float64], vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """`dot` of every row [n, 384] with one vector, [n]."""
    products: NDArray[np.float64] = np.sum(rows * vector, axis=1)
    return products


class Encoder:
    """The loaded model. Not thread-safe: one device thread calls it."""

    def __init__(self, model: bytes, *, cls: int, sep: int, threads: int) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Workers that spin for long fight the server's own threads for few cores; workers that
        # never spin wake up late. Two cores, 16 pieces, median: 5.1 ms idle and 12 ms busy with
        # this; 5.3 and 42 with the default; 7.7 and 41 without spinning. Old versions ignore it.
        options.add_session_config_entry("session.intra_op.spin_duration_us", "50")
        try:
            self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors share no base class of their own
            raise ConfigError(f"onnxruntime can't load the model: {error}") from error
        found = {entry.name for entry in self._session.get_inputs()}
        if found != _INPUTS:
            raise ConfigError(f"the model's inputs are {sorted(found)}, not {sorted(_INPUTS)}")
        self._cls, self._sep = cls, sep
        self.threads = threads
        self.forwards = 0

    def vector(self, windows: Sequence[Ids]) -> NDArray[np.float64]:
        """A text's unit vector: the normalised sum of its windows' unit vectors.

        No window, or a sum of length zero, gives the zero vector: similar to nothing.
        """
        if not windows:
            return np.zeros(WIDTH)
        if len(windows) == 1:
            return self._window(windows[0])
        return _unit(np.sum([self._window(ids) for ids in windows], axis=0))

    def _window(self, ids: Ids) -> NDArray[np.float64]:
        row = np.array([[self._cls, *ids, self._sep]], dtype=np.int64)
        self.forwards += 1
        (hidden,) = self._session.run(
            ["last_hidden_state"],
            {
                "input_ids": row,
                "attention_mask": np.ones_like(row),
                "token_type_ids": np.zeros_like(row),
            },
        )
        return _unit(hidden[0].mean(axis=0, dtype=np.float64))


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    length = float(np.sqrt(np.sum(vector * vector)))
    return vector / length if length > 0 else vector
