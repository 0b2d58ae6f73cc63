"""Contrasts: qualities that texts show rather than name (anger, urgency, a request for money).

Each has names, sentences that show it and sentences that don't. A question whose key phrase is near
a contrast's name is answered with its sentences too. Owns that comparison, in float64; the texts
are ours and fixed. V views, K sentences of a side; vectors are [n, 384].
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from systone.models.mini.constants import (
    BACKGROUND_NEAREST,
    CONTRAST_NEAREST,
    CONTRAST_THRESHOLD,
)
from systone.models.mini.encoder import dots

__all__ = ["Contrast", "Contrasts", "mean_of_largest"]

Vectors = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Contrast:
    """One quality: vectors of its names and of the sentences for and against it."""

    id: str
    names: Vectors
    yes: Vectors
    no: Vectors


class Contrasts:
    """All contrasts and the reference texts, encoded once at start."""

    def __init__(self, data: bytes, encode: Callable[[str], Vectors]) -> None:
        texts = json.loads(data)
        self.references = _stack(texts["references"], encode)
        self._all = tuple(
            Contrast(
                entry["id"],
                _stack(entry["names"], encode),
                _stack(entry["yes"], encode),
                _stack(entry["no"], encode),
            )
            for entry in texts["contrasts"]
        )

    def background(self, vector: Vectors) -> float:
        """How similar a label is to texts that have nothing to do with it."""
        return mean_of_largest(dots(self.references, vector), BACKGROUND_NEAREST)

    def nearest(self, key: Vectors) -> tuple[Contrast, float]:
        """The contrast whose name is nearest to a key phrase, and how far above the threshold."""
        nearness = [float(np.max(dots(contrast.names, key))) for contrast in self._all]
        best = int(np.argmax(nearness))
        return self._all[best], max(0.0, nearness[best] - CONTRAST_THRESHOLD)

    @staticmethod
    def reading(contrast: Contrast, views: Vectors) -> float:
        """Best match of a view with the sentences for it, minus the best with those against."""
        return _best(views, contrast.yes) - _best(views, contrast.no)


def mean_of_largest(values: NDArray[np.float64], count: int) -> float:
    """Mean of the `count` largest values, of all if there are fewer."""
    return float(np.mean(np.sort(values)[-count:]))


def _best(views: Vectors, sentences: Vectors) -> float:
    return max(mean_of_largest(dots(sentences, view), CONTRAST_NEAREST) for view in views)


def _stack(texts: Sequence[str], encode: Callable[[str], Vectors]) -> Vectors:
    return np.stack([encode(text) for text in texts])
