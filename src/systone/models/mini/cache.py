"""A bounded least-recently-used store of label vectors, keyed by the whole text.

Values are exact copies of what a forward gives for that text, so a hit and a miss answer alike.
Written by the device thread only; the counters may be read from any thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Label", "LabelCache"]

_ENTRY_OVERHEAD = 512  # key, node and objects beside the text and the vector


@dataclass(frozen=True, slots=True, eq=False)
class Label:
    """A text's unit vector (float64 [384]), background similarity and contrast positions [C]."""

    vector: NDArray[np.float64]
    background: float
    positions: NDArray[np.float64]


class LabelCache:
    """At most `max_texts` labels in at most `max_bytes`; a label larger than that isn't kept."""

    def __init__(self, max_texts: int, max_bytes: int) -> None:
        self._max_texts = max_texts
        self._max_bytes = max_bytes
        self._labels: OrderedDict[str, tuple[Label, int]] = OrderedDict()
        self._bytes = 0
        self._hits = 0
        self._misses = 0
        self._evictions = 0

    def get(self, text: str) -> Label | None:
        """The label, now the most recently used one; None if it has to be computed."""
        found = self._labels.get(text)
        if found is None:
            self._misses += 1
            return None
        self._hits += 1
        self._labels.move_to_end(text)
        return found[0]

    def put(self, text: str, label: Label) -> None:
        """Keep a label that `get` did not find, evicting the least recently used beyond a bound."""
        size = label.vector.nbytes + label.positions.nbytes + 4 * len(text) + _ENTRY_OVERHEAD
        if size > self._max_bytes or self._max_texts == 0 or text in self._labels:
            return
        self._labels[text] = (label, size)
        self._bytes += size
        while len(self._labels) > self._max_texts or self._bytes > self._max_bytes:
            _, (_, freed) = self._labels.popitem(last=False)
            self._bytes -= freed
            self._evictions += 1

    def describe(self) -> Mapping[str, int]:
        """Size, bounds and counters."""
        return {
            "texts": len(self._labels),
            "max_texts": self._max_texts,
            "bytes": self._bytes,
            "max_bytes": self._max_bytes,
            "hits": self._hits,
            "misses": self._misses,
            "evictions": self._evictions,
        }
