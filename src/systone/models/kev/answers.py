"""Pointer logits to Kev 1.0 answers: probabilities in FP32, the rest in float64, all of it rounded
to four decimals. Formulas: the Kev contract, section 4.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from systone.models.calibration import (
    argmax,
    choice_confidence,
    expected_level,
    score_confidence,
    softmax,
)
from systone.models.pytext import round4
from systone.protocol.types import (
    Answer,
    Choice,
    ChoiceAnswer,
    Noul,
    NoulAnswer,
    Question,
    ScoreAnswer,
    Text,
)

__all__ = ["answer", "probabilities"]


def probabilities(logits: Sequence[float], temperature: float) -> tuple[float, ...]:
    """`softmax(z / T)`, each value rounded to FP32 as the reference's are."""
    return tuple(array("f", softmax(logits, temperature)))


def answer(
    question: Question, logits: Sequence[float], temperature: float, legend: Sequence[Text]
) -> Answer:
    """The answer from one logit per option, in the order the branch lists them (a Noul's: no, then
    yes). `legend`: a Score's levels as the reply shows them."""
    shares = probabilities(logits, temperature)
    shown = tuple([round4(p) for p in shares])
    if isinstance(question, Noul):
        return NoulAnswer(shown[1])
    total = math.fsum(shares)
    normal = [p / total for p in shares]  # for confidences only
    if isinstance(question, Choice):
        names = list(question.criteria)
        return ChoiceAnswer(
            choice=names[argmax(shares)],
            probabilities=dict(zip(names, shown, strict=True)),
            confidence=round4(choice_confidence(normal)),
        )
    return ScoreAnswer(
        score=round4(expected_level(shares)),
        legend=tuple(legend),
        probabilities=shown,
        confidence=round4(score_confidence(normal)),
    )
