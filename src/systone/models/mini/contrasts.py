"""Contrasts: qualities that texts show rather than name (anger, urgency, a request for money).

Each has names, sentences that show it and sentences that don't. A question whose key phrase is near
a contrast's name is answered with its sentences too. Owns that comparison, in float64; the texts
are ours and fixed, their vectors built once by `scripts/build_mini_vectors.py`. Vectors: [n, 384].
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from systone.errors import ConfigError
from systone.models.mini.constants import BACKGROUND_NEAREST, CONTRAST_NEAREST
from systone.models.mini.encoder import dots

__all__ = ["Contrast", "Contrasts", "fixed_texts", "mean_of_largest"]

Vectors = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Contrast:
    """One quality: vectors of its names and of the sentences for and against it."""

    id: str
    names: Vectors
    yes: Vectors
    no: Vectors


class Contrasts:
    """All contrasts and the reference texts, from the texts' file and their stored vectors."""

    def __init__(self, texts: bytes, vectors: bytes) -> None:
        layout = json.loads(texts)
        rows = _normalised(np.load(io.BytesIO(vectors), allow_pickle=False))
        if len(rows) != len(fixed_texts(texts)):
            raise ConfigError("systone-mini: the fixed texts and their vectors differ in number")
        remaining = iter(rows)

        def take(group: list[str]) -> Vectors:
            return np.stack([next(remaining) for _ in group])

        self.references = take(layout["references"])
        self._all = tuple(
            Contrast(entry["id"], take(entry["names"]), take(entry["yes"]), take(entry["no"]))
            for entry in layout["contrasts"]
        )

    def __len__(self) -> int:
        return len(self._all)

    def background(self, vector: Vectors) -> float:
        """How similar a label is to texts that have nothing to do with it."""
        return mean_of_largest(dots(self.references, vector), BACKGROUND_NEAREST)

    def nearest(self, key: Vectors) -> tuple[int, float]:
        """(index, cosine) of the contrast whose name is nearest to a key phrase."""
        nearness = [float(np.max(dots(contrast.names, key))) for contrast in self._all]
        best = int(np.argmax(nearness))
        return best, nearness[best]

    def reading(self, index: int, views: Sequence[Vectors]) -> float:
        """Best match of a view with the sentences for it, minus the best with those against."""
        contrast = self._all[index]
        return _best(views, contrast.yes) - _best(views, contrast.no)

    def positions(self, vector: Vectors) -> Vectors:
        """Where one text lies on each contrast [C]."""
        return np.array([self.reading(index, [vector]) for index in range(len(self._all))])


def fixed_texts(texts: bytes) -> list[str]:
    """Every fixed text in the order of the stored vectors: references, then each contrast's names,
    sentences for it and sentences against it."""
    layout = json.loads(texts)
    out = list(layout["references"])
    for entry in layout["contrasts"]:
        out += [*entry["names"], *entry["yes"], *entry["no"]]
    return out


def mean_of_largest(values: Vectors, count: int) -> float:
    """Mean of the `count` largest values, of all if there are fewer."""
    return float(np.mean(np.sort(values)[-count:]))


def _best(views: Sequence[Vectors], sentences: Vectors) -> float:
    return max(mean_of_largest(dots(sentences, view), CONTRAST_NEAREST) for view in views)


def _normalised(stored: NDArray[np.float16]) -> Vectors:
    rows = stored.astype(np.float64)
    lengths: Vectors = np.sqrt(np.sum(rows * rows, axis=1, keepdims=True))
    unit: Vectors = rows / lengths
    return unit
