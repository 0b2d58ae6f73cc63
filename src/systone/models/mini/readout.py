"""From similarities to scores: the read-outs of systone-mini, in float64.

Owns the formulas; knows no text, no tokenizer, no vector. All evidence is counted from the
background (what unrelated texts reach), so a state that says nothing of a question leaves its
scores equal. Rows and columns are those of `work.py`. S views, n options or levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from systone.models.mini.constants import (
    CHOICE_SLOPE,
    CONTRAST_GAIN,
    EVIDENCE_WIDTH,
    LEVEL_BLUR,
    NOUL_SLOPE,
    SCORE_SLOPE,
    SIDES_SLOPE,
)
from systone.models.mini.work import (
    BACKGROUND,
    CONTRAST,
    CONTRAST_WEIGHT,
    OPINION,
    VIEWS,
    NoulRows,
    OptionRows,
)

__all__ = ["choice_scores", "level_scores", "noul_log_odds"]

Values = NDArray[np.float64]


def choice_scores(values: Values, question: OptionRows, windows: int) -> list[float]:
    """Softmax scores [n] of options: slope times what lifts each above its background."""
    return [CHOICE_SLOPE * _softplus(e) for e in _evidences(values, question.rows, windows)]


def level_scores(values: Values, question: OptionRows, windows: int) -> list[float]:
    """Softmax scores [n] of levels: as for options, each level leaning on its neighbours."""
    raw = [SCORE_SLOPE * _softplus(e) for e in _evidences(values, question.rows, windows)]
    return _blurred(raw, LEVEL_BLUR)


def noul_log_odds(values: Values, question: NoulRows, windows: int, *, scored: bool) -> float:
    """Log-odds of yes. 0 where there is nothing to compare.

    Two described sides are a choice between them; otherwise the statement, its key phrase and a
    described side are held against the background and the nearest contrast, with a small slope.
    `scored`: a second model's opinion of the statement is there and decides instead.
    """
    if values.shape[1] == VIEWS:
        return 0.0
    true, false = (_meaning(values, row, windows) for row in (question.true, question.false))
    if true is not None and false is not None:
        return SIDES_SLOPE * (true - false)
    if scored and question.sentence is not None:
        return float(values[question.sentence, OPINION])
    parts = [_meaning(values, row, windows) for row in (question.sentence, question.key)]
    parts += [true, None if false is None else -false]
    known = [part for part in parts if part is not None]
    evidence = math.fsum(known) / len(known) if known else 0.0
    if question.key is not None:
        key = values[question.key]
        evidence += CONTRAST_GAIN * float(key[CONTRAST_WEIGHT]) * float(key[CONTRAST])
    return NOUL_SLOPE * evidence


def _evidences(values: Values, rows: Sequence[int | None], windows: int) -> list[float]:
    """Best similarity less background, per option; 0 for one without text.

    A state of one window is compared whole; a longer one window by window and sentence by sentence,
    and the best view counts, so that one sentence anywhere can decide.
    """
    if values.shape[1] == VIEWS:
        return [0.0] * len(rows)
    end = VIEWS + 1 if windows == 1 else values.shape[1]
    return [
        0.0 if row is None else float(values[row, VIEWS:end].max() - values[row, BACKGROUND])
        for row in rows
    ]


def _meaning(values: Values, row: int | None, windows: int) -> float | None:
    """Mean of the best window's and the best sentence's similarity, less background."""
    if row is None:
        return None
    views = values[row, VIEWS:]
    whole, sentences = views[:windows], views[windows:]
    best = float(whole.max())
    if len(sentences):
        best = 0.5 * (best + float(sentences.max()))
    return best - float(values[row, BACKGROUND])


def _softplus(evidence: float) -> float:
    """Evidence with its negative part faded out over EVIDENCE_WIDTH; -inf, ruled out, stays."""
    if not math.isfinite(evidence):
        return evidence
    x = evidence / EVIDENCE_WIDTH
    return EVIDENCE_WIDTH * (max(x, 0.0) + math.log1p(math.exp(-abs(x))))


def _blurred(scores: Sequence[float], share: float) -> list[float]:
    """Each score mixed with the mean of its neighbours; levels ruled out lend and take nothing."""
    out = []
    for i, score in enumerate(scores):
        near = [scores[j] for j in (i - 1, i + 1) if 0 <= j < len(scores)]
        near = [s for s in near if s != -math.inf]
        mean = math.fsum(near) / len(near) if near else score
        out.append((1 - share) * score + share * mean)
    return out
