"""Scores to answers, in float64 over each whole question. Formulas: the contract, section 3."""

from __future__ import annotations

from collections.abc import Sequence

from systone.models.answering import answer_of
from systone.models.calibration import sigmoid, softmax
from systone.protocol.types import Answer, Noul, NoulAnswer, Question


def num_rows(question: Question) -> int:
    """Candidate prompts of a question: one for a Noul, else one per option or level."""
    return 1 if isinstance(question, Noul) else len(question.criteria)


def answer(question: Question, scores: Sequence[float], temperature: float) -> Answer:
    """The answer from the question's raw scores, one per row; a Noul's logits are [0, score]."""
    if isinstance(question, Noul):
        return NoulAnswer(sigmoid(scores[0], temperature))
    return answer_of(question, softmax(scores, temperature))
