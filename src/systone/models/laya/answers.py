"""Marker logits to answers, in float64 over each whole question; and Laya's own confidences.

Owns formulas only. Sources: the Laya contract, section 3; TypeSafe's confidences in `calibration`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from systone.models.calibration import (
    argmax,
    choice_confidence,
    expected_level,
    score_confidence,
    softmax,
)
from systone.protocol.types import (
    Answer,
    Choice,
    ChoiceAnswer,
    Noul,
    NoulAnswer,
    Question,
    ScoreAnswer,
)

__all__ = ["answer", "own_confidence"]


def answer(
    question: Question, logits: Sequence[float], temperature: float
) -> tuple[Answer, Mapping[str, float]]:
    """The answer, and the model's own confidences beside it. A Noul's logits are [false, true]."""
    probabilities = softmax(logits, temperature)
    own = own_confidence(question, probabilities)
    if isinstance(question, Noul):
        return NoulAnswer(probabilities[1]), own
    if isinstance(question, Choice):
        names = list(question.criteria)
        made = ChoiceAnswer(
            choice=names[argmax(probabilities)],
            probabilities=dict(zip(names, probabilities, strict=True)),
            confidence=choice_confidence(probabilities),
        )
        return made, own
    return (
        ScoreAnswer(
            score=expected_level(probabilities),
            legend=tuple(question.criteria),
            probabilities=probabilities,
            confidence=score_confidence(probabilities),
        ),
        own,
    )


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
