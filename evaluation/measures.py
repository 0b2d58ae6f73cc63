"""Measures of probabilistic answers against labels, pure Python.

p: probabilities of one item, in option order; y: index of the right one. Knows no model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["auc", "brier", "calibration_error", "majority", "mean", "ranked_probability_score"]


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; NaN of none."""
    return math.fsum(values) / len(values) if values else math.nan


def auc(positives: Sequence[float], negatives: Sequence[float]) -> float:
    """Chance that a positive outranks a negative, ties counted half; NaN without both."""
    wins = [float(p > n) + 0.5 * float(p == n) for p in positives for n in negatives]
    return mean(wins)


def brier(p: Sequence[float], y: int) -> float:
    """Squared error against the one-hot label: 0 best, 2 worst; a Noul's two sides count both."""
    return math.fsum((value - float(i == y)) ** 2 for i, value in enumerate(p))


def ranked_probability_score(p: Sequence[float], y: int) -> float:
    """Mean squared error of the cumulative probabilities over the n - 1 thresholds."""
    if len(p) < 2:
        return 0.0
    total, errors = 0.0, []
    for i, value in enumerate(p[:-1]):
        total += value
        errors.append((total - float(i >= y)) ** 2)
    return mean(errors)


def calibration_error(confidences: Sequence[float], right: Sequence[bool], bins: int = 10) -> float:
    """Expected calibration error over equal-width bins of the winner's probability."""
    boxes: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for confidence, ok in zip(confidences, right, strict=True):
        boxes[min(int(confidence * bins), bins - 1)].append((confidence, ok))
    gaps = [abs(math.fsum(c for c, _ in box) - sum(ok for _, ok in box)) for box in boxes if box]
    return math.fsum(gaps) / len(confidences) if confidences else math.nan


def majority(labels: Sequence[object]) -> float:
    """Share of the most frequent label: what always giving that answer would score."""
    return max(labels.count(label) for label in set(labels)) / len(labels) if labels else math.nan
