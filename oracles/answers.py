"""Open-Jev answers from raw scores, restated from the model's contract in plain Python floats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def answer(question: Mapping[str, Any], scores: Sequence[float], temperature: float) -> Any:
    """The answer object of one question from the scores of its candidates, in order."""
    if question["type"] == "noul":
        return {"type": "noul", "noul": softmax([0.0, scores[0]], temperature)[1]}
    shares = softmax(scores, temperature)
    count, best = len(shares), shares.index(max(shares))
    if question["type"] == "choice":
        names = list(question["criteria"])
        sure = 1.0 if count == 1 else (shares[best] - 1 / count) / (1 - 1 / count)
        return {
            "type": "choice",
            "choice": names[best],
            "probabilities": dict(zip(names, shares, strict=True)),
            "confidence": sure,
        }
    spread = sum(abs(i - (count - 1) / 2) for i in range(count)) / count
    away = sum(abs(i - best) * share for i, share in enumerate(shares))
    return {
        "type": "score",
        "score": sum(i * share for i, share in enumerate(shares)),
        "probabilities": {str(i): share for i, share in enumerate(shares)},
        "confidence": 1.0 if count == 1 else max(0.0, 1 - away / spread),
        "legend": {str(i): level for i, level in enumerate(question["criteria"])},
    }


def softmax(scores: Sequence[float], temperature: float) -> list[float]:
    top = max(scores)
    weights = [math.exp((score - top) / temperature) for score in scores]
    total = math.fsum(weights)
    return [weight / total for weight in weights]
