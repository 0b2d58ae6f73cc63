"""What a marker encoder runs: rows of token ids with the places of their option markers.

The message between the adapter and the executor; knows neither. One row is one question.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["MarkerRow"]


@dataclass(frozen=True, slots=True, eq=False)
class MarkerRow:
    """ids int64 [L]; markers int64 [k], in option order; `kind`: row of the type embedding."""

    ids: NDArray[np.int64]
    markers: NDArray[np.int64]
    kind: int
