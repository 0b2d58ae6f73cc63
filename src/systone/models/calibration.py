"""From raw scores to probabilities, levels and confidences, in float64.

Owns the formulas every family's `finish` shares; knows no model, no prompt and no wire format.
Everything is plain Python floats with exactly rounded sums (`math.fsum`), so no result depends on
the order of the options, on their number modulo a vector width, or on the platform's BLAS.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from systone.errors import EngineFaultError

__all__ = [
    "argmax",
    "choice_confidence",
    "expected_level",
    "score_confidence",
    "sigmoid",
    "softmax",
]


def softmax(scores: Iterable[float], temperature: float = 1.0) -> tuple[float, ...]:
    """`p_i = exp((s_i - max s) / T) / sum_j exp((s_j - max s) / T)` over one whole question.

    A score of -inf is a candidate ruled out: probability exactly 0.0. Raises
    EngineFaultError(code="non_finite_output") on NaN, +inf, or when no score is finite, and
    ValueError on no scores or a temperature that is not positive and finite.
    """
    _check_temperature(temperature)
    values = [float(s) for s in scores]
    if not values:
        raise ValueError("softmax of no scores")
    top = _largest_finite(values)
    weights = [math.exp((v - top) / temperature) for v in values]
    total = math.fsum(weights)
    return tuple([w / total for w in weights])


def sigmoid(score: float, temperature: float = 1.0) -> float:
    """`1 / (1 + exp(-s / T))`: the probability of yes for a two-way question scored `[0, s]`.

    Raises EngineFaultError(code="non_finite_output") unless `score` is finite.
    """
    _check_temperature(temperature)
    value = float(score)
    if not math.isfinite(value):
        raise _non_finite(value)
    # The exponent stays negative, so neither branch can overflow.
    weight = math.exp(-abs(value) / temperature)
    return 1.0 / (1.0 + weight) if value >= 0 else weight / (1.0 + weight)


def argmax(values: Sequence[float]) -> int:
    """Index of the largest value, the first of equals. Raises ValueError on none."""
    if not values:
        raise ValueError("argmax of no values")
    return values.index(max(values))


def choice_confidence(probabilities: Sequence[float]) -> float:
    """TypeSafe's Choice confidence: `(max p - 1/n) / (1 - 1/n)`, 1 when n = 1; within [0, 1]."""
    n = len(probabilities)
    if n == 1:
        return 1.0
    floor = 1.0 / n
    return _unit((max(probabilities) - floor) / (1.0 - floor))


def expected_level(probabilities: Sequence[float]) -> float:
    """`sum_i i * p_i`, levels from 0, kept inside [0, n - 1] against rounding."""
    expectation = math.fsum([i * p for i, p in enumerate(probabilities)])
    return min(max(expectation, 0.0), float(len(probabilities) - 1))


def score_confidence(probabilities: Sequence[float]) -> float:
    """TypeSafe's Score confidence: `max(0, 1 - sum_i p_i |i - k| / D)`, 1 when n = 1.

    k is the first most probable level and `D = (1/n) sum_i |i - (n-1)/2|` the mean distance of a
    uniform distribution from its middle, `floor(n * n / 4) / n`.
    """
    n = len(probabilities)
    if n == 1:
        return 1.0
    mode = argmax(probabilities)
    spread = math.fsum([p * abs(i - mode) for i, p in enumerate(probabilities)])
    return _unit(1.0 - spread / ((n * n // 4) / n))


def _largest_finite(values: Sequence[float]) -> float:
    if all(map(math.isfinite, values)):
        return max(values)
    top = -math.inf
    for value in values:
        if math.isnan(value) or value == math.inf:
            raise _non_finite(value)
        top = max(top, value)
    if top == -math.inf:
        raise _non_finite(top)
    return top


def _non_finite(value: float) -> EngineFaultError:
    return EngineFaultError(
        f"the model returned a non-finite score ({value}) for this request",
        code="non_finite_output",
    )


def _check_temperature(temperature: float) -> None:
    if not (math.isfinite(temperature) and temperature > 0):
        raise ValueError(f"temperature must be positive and finite, not {temperature}")


def _unit(value: float) -> float:
    return min(max(value, 0.0), 1.0)
