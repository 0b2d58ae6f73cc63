"""A request's read-out as a table with named columns: one row per label.

Owns the layout that the executor writes and the read-outs use. Columns: four facts of the label,
its position on each of the C contrasts, then its similarity with each view, windows first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["BACKGROUND", "CONTRAST", "FACTS", "NEARNESS", "OPINION", "READING", "Table"]

BACKGROUND: Final = 0  # similarity of the label with texts that have nothing to do with it
CONTRAST: Final = 1  # key phrases: index of the nearest contrast
NEARNESS: Final = 2  # key phrases: cosine with that contrast's name
READING: Final = 3  # key phrases: where the state lies on it
OPINION: Final = 4  # statements: the second model's log-odds
FACTS: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """`values` float64 [labels, FACTS + C + views]; `windows` of the `views` are windows."""

    values: NDArray[np.float64]
    windows: int
    views: int

    @property
    def is_blank(self) -> bool:
        """Whether the state had nothing to read."""
        return self.views == 0

    def fact(self, row: int, column: int) -> float:
        """One of the named columns."""
        return float(self.values[row, column])

    def position(self, row: int, contrast: int) -> float:
        """Where a label's own text lies on a contrast."""
        return float(self.values[row, FACTS + contrast])

    def topical(self, row: int) -> float:
        """Best similarity less background.

        A state of one window is compared whole; a longer one by windows and sentences, and the best
        view counts, so that one sentence anywhere can decide.
        """
        similarities = self._similarities(row)
        seen = similarities[:1] if self.windows == 1 else similarities
        return float(seen.max()) - self.fact(row, BACKGROUND)

    def meaning(self, row: int) -> float:
        """Mean of the best window's and the best sentence's similarity, less background."""
        similarities = self._similarities(row)
        best = float(similarities[: self.windows].max())
        if self.views > self.windows:
            best = 0.5 * (best + float(similarities[self.windows :].max()))
        return best - self.fact(row, BACKGROUND)

    def _similarities(self, row: int) -> NDArray[np.float64]:
        return self.values[row, self.values.shape[1] - self.views :]
