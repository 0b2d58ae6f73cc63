"""Marker logits to answers, in float64 over each whole question; and Laya's own confidences.

Owns formulas only. Sources: the Laya contract, section 3; TypeSafe's confidences in `calibration`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from systone.models.answering import answer_of
from systone.models.calibration import softmax
from systone.protocol.types import Answer, Noul, NoulAnswer, Question

__all__ = ["answer", "own_confidence"]


def answer(
    question: Question, logits: Sequence[float], temperature: float
) -> tuple[Answer, Mapping[str, float]]:
    """The answer, and the model's own confidences beside it. A Noul's logits are [false, true]."""
    probabilities = softmax(logits, temperature)
    own = own_confidence(question, probabilities)
    if isinstance(question, Noul):
        return NoulAnswer(probabilities[1]), own
    return answer_of(question, probabilities), own


def own_confidence(question: Question, probabilities: Sequence[float]) -> Mapping[str, float]:
    """`confidence`: 1 - H(p) / log k (Choice, Score; 1 for one option) or max p (Noul);
    `answer_confidence`: max p."""
    top = max(probabilities)
    confidence = top if isinstance(question, Noul) else _concentration(probabilities)
    return {"confidence": confidence, "answer_confidence": top}


def _concentration(probabilities: Sequence[float]) -> float:
    if len(probabilities) < 2:
        return 1.0
    entropy = -math.fsum(p * math.log(p) for p in probabilities if p > 0)
    return min(max(1.0 - entropy / math.log(len(probabilities)), 0.0), 1.0)
