"""Label logits to answers, in float64 over each whole question.

A row's scores are its labels' logits; averages over orders are of log-probabilities. Isolated
levels: P(yes) of each level, divided by their sum (decider-ai). Formulas: `models.calibration`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from systone.models.answering import answer_of
from systone.models.calibration import softmax
from systone.models.label.rows import AskedQuestion, AskedRow
from systone.protocol.types import Answer, Noul, NoulAnswer, Question

__all__ = ["answer_from", "label_scores", "option_scores"]

YES = 1


def label_scores(row: AskedRow, logits: NDArray[np.float32]) -> list[float]:
    """The score of each option of a row, by option: its label's largest logit. logits [W]."""
    scores = [math.nan] * len(row.order)
    for option, label in zip(row.order, row.labels, strict=True):
        scores[option] = max(float(logits[column]) for column in label.columns)
    return scores


def option_scores(
    asked: AskedQuestion, scores: Sequence[Sequence[float]], temperature: float
) -> list[float]:
    """Log-probabilities up to a constant, by option, from the scores of the question's rows."""
    if asked.rows[0].level is None:
        return _mean(scores, temperature)
    by_level: list[list[Sequence[float]]] = [[] for _ in range(asked.num_options)]
    for row, row_scores in zip(asked.rows, scores, strict=True):
        assert row.level is not None
        by_level[row.level].append(row_scores)
    yes = [softmax(_mean(level, temperature))[YES] for level in by_level]
    # no level fits at all: uniform, as every level fits equally badly
    return [math.log(p) if p > 0 else -math.inf for p in yes] if any(yes) else [0.0] * len(yes)


def answer_from(question: Question, scores: Sequence[float]) -> Answer:
    """The answer from log-probabilities by option; a Noul's options are (false, true)."""
    probabilities = softmax(scores)
    if isinstance(question, Noul):
        return NoulAnswer(probabilities[YES])
    return answer_of(question, probabilities)


def _mean(rows: Sequence[Sequence[float]], temperature: float) -> list[float]:
    """Mean over rows of log softmax(scores / T), by option."""
    logs = [_log_softmax(row, temperature) for row in rows]
    return [math.fsum(values) / len(logs) for values in zip(*logs, strict=True)]


def _log_softmax(scores: Sequence[float], temperature: float) -> list[float]:
    softmax(scores, temperature)  # refuses what isn't finite
    top = max(scores)
    shifted = [(score - top) / temperature for score in scores]
    total = math.log(math.fsum(math.exp(value) for value in shifted))
    return [value - total for value in shifted]
