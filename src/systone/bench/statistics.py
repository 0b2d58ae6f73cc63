"""Percentiles, means and bootstrap intervals. Nothing else; empty input gives None."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["bootstrap_ratio", "mean", "nearest_rank"]

RESAMPLES = 10_000


def nearest_rank(values: Sequence[float], percent: float) -> float | None:
    """The smallest value with at least `percent` % of all values at or below it."""
    if not values:
        return None
    ordered = sorted(values)
    # multiplied before it is divided: 7 % of 100 values is rank 7, though 0.07 * 100 is above 7
    return ordered[max(1, math.ceil(percent * len(ordered) / 100)) - 1]


def mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def bootstrap_ratio(
    above: Sequence[float], below: Sequence[float], seed: int
) -> tuple[float, float, float] | None:
    """sum(above) / sum(below) with a 95 % interval: (ratio, low, high). The pairs (above[i],
    below[i]) are resampled together. None without pairs, or if a denominator is zero."""
    a, b = np.asarray(above, np.float64), np.asarray(below, np.float64)
    if a.shape != b.shape:
        raise AssertionError("the pairs are not pairs")
    if not len(a) or not (b > 0).all():
        return None
    picks = np.random.default_rng(seed).integers(len(a), size=(RESAMPLES, len(a)))
    ratios = (a[picks].sum(axis=1) / b[picks].sum(axis=1)).tolist()
    low, high = nearest_rank(ratios, 2.5), nearest_rank(ratios, 97.5)
    assert low is not None
    assert high is not None
    return float(a.sum() / b.sum()), low, high
