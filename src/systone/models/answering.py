"""Probabilities of a whole question as its answer: what every family without rounding of its own
replies. Formulas: `models.calibration`.
"""

from __future__ import annotations

from collections.abc import Sequence

from systone.models.calibration import (
    argmax,
    choice_confidence,
    expected_level,
    score_confidence,
)
from systone.protocol.types import Choice, ChoiceAnswer, Score, ScoreAnswer

__all__ = ["answer_of"]


def answer_of(
    question: Choice | Score, probabilities: Sequence[float]
) -> ChoiceAnswer | ScoreAnswer:
    """`probabilities`: one per option or level, in request order, summing to one."""
    if isinstance(question, Choice):
        names = list(question.criteria)
        return ChoiceAnswer(
            choice=names[argmax(probabilities)],
            probabilities=dict(zip(names, probabilities, strict=True)),
            confidence=choice_confidence(probabilities),
        )
    return ScoreAnswer(
        score=expected_level(probabilities),
        legend=tuple(question.criteria),
        probabilities=tuple(probabilities),
        confidence=score_confidence(probabilities),
    )
