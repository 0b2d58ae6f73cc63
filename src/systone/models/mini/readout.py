"""From similarities to scores: the read-outs of systone-mini, in float64.

Owns the formulas; knows no text, no tokenizer, no vector. All evidence is counted from the
background (what unrelated texts reach), so a state that says nothing of a question leaves its
scores about equal. n options or levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from systone.models.mini.constants import (
    CHOICE_SLOPE,
    CONTRAST_GAIN,
    CONTRAST_THRESHOLD,
    DEGREE_FULL,
    DEGREE_SLOPE,
    DEGREE_SPREAD,
    DEGREE_THRESHOLD,
    EVIDENCE_WIDTH,
    LEVEL_BLUR,
    NOUL_SLOPE,
    SCORE_SLOPE,
    SIDES_SLOPE,
)
from systone.models.mini.table import CONTRAST, NEARNESS, OPINION, READING, Table
from systone.models.mini.work import NoulRows, OptionRows

__all__ = ["choice_scores", "level_scores", "noul_log_odds"]


def choice_scores(table: Table, question: OptionRows) -> list[float]:
    """Softmax scores [n]: slope times what lifts each option above its background.

    A question of degree ("How serious ...?") asks where the state lies, not what it is about: the
    nearer its instructions are to a contrast, the more the options' places on it count instead.
    """
    topical = [CHOICE_SLOPE * e for e in _lifts(table, question.rows)]
    share, offsets = _degree(table, question, ordered=False)
    return [(1 - share) * t + share * o for t, o in zip(topical, offsets, strict=True)]


def level_scores(table: Table, question: OptionRows) -> list[float]:
    """Softmax scores [n]: as for options, plus the levels' places, smoothed over neighbours."""
    topical = [SCORE_SLOPE * e for e in _lifts(table, question.rows)]
    share, offsets = _degree(table, question, ordered=True)
    return _blurred([t + share * o for t, o in zip(topical, offsets, strict=True)], LEVEL_BLUR)


def noul_log_odds(table: Table, question: NoulRows, *, scored: bool) -> float:
    """Log-odds of yes; 0 where there is nothing to compare.

    Two described sides are a choice between them. Otherwise the statement, its key phrase and a
    described side are held against the background, and the state against the nearest contrast,
    with a small slope. `scored`: a second model's opinion of the statement decides instead.
    """
    if table.is_blank:
        return 0.0
    true, false = (None if r is None else table.meaning(r) for r in (question.true, question.false))
    if true is not None and false is not None:
        return SIDES_SLOPE * (true - false)
    if scored and question.sentence is not None:
        return table.fact(question.sentence, OPINION)
    parts = [table.meaning(r) for r in (question.sentence, question.key) if r is not None]
    parts += [e for e in (true, None if false is None else -false) if e is not None]
    evidence = math.fsum(parts) / len(parts) if parts else 0.0
    if question.key is not None:
        nearness = max(0.0, table.fact(question.key, NEARNESS) - CONTRAST_THRESHOLD)
        evidence += CONTRAST_GAIN * nearness * table.fact(question.key, READING)
    return NOUL_SLOPE * evidence


def _lifts(table: Table, rows: Sequence[int | None]) -> list[float]:
    """Evidence [n] with its negative part faded out; 0 for an option without text."""
    if table.is_blank:
        return [0.0] * len(rows)
    return [0.0 if row is None else _softplus(table.topical(row)) for row in rows]


def _softplus(evidence: float) -> float:
    """Smooth positive part, of width EVIDENCE_WIDTH. -inf (ruled out) and NaN pass through."""
    if not math.isfinite(evidence):
        return evidence
    x = evidence / EVIDENCE_WIDTH
    return EVIDENCE_WIDTH * (max(x, 0.0) + math.log1p(math.exp(-abs(x))))


def _degree(table: Table, question: OptionRows, *, ordered: bool) -> tuple[float, list[float]]:
    """(share, scores [n]) of the options' places on the contrast nearest to the instructions.

    The score falls with the squared distance between option and state. Ordered levels are places
    0..n-1 and the state's comes from a line fitted to the levels' positions; unordered options are
    measured in standard deviations of their own positions. Share 0: the contrast can't tell.
    """
    n = len(question.rows)
    poles = [row for row in question.poles if row is not None]
    if table.is_blank or question.key is None or n < 2 or len(poles) < n:
        return 0.0, [0.0] * n
    near = table.fact(question.key, NEARNESS)
    share = min(1.0, max(0.0, (near - DEGREE_THRESHOLD) / (DEGREE_FULL - DEGREE_THRESHOLD)))
    contrast, state = int(table.fact(question.key, CONTRAST)), table.fact(question.key, READING)
    at = [table.position(row, contrast) for row in poles]
    mean = math.fsum(at) / n
    spread = math.sqrt(math.fsum((a - mean) ** 2 for a in at) / n)
    if spread < DEGREE_SPREAD:
        return 0.0, [0.0] * n
    if not ordered:
        places = [(a - mean) / spread for a in at]
        place = min(max((state - mean) / spread, min(places)), max(places))
        return share, [-0.5 * DEGREE_SLOPE * (p - place) ** 2 for p in places]
    middle = (n - 1) / 2
    covariance = math.fsum((i - middle) * (a - mean) for i, a in enumerate(at)) / n
    place = middle + covariance / spread**2 * (state - mean)
    place = min(max(place, 0.0), n - 1.0)
    order = covariance**2 / (spread**2 * (n * n - 1) / 12)  # squared correlation with the index
    half = max(middle, 0.5)
    return share * order, [-DEGREE_SLOPE * ((i - place) / half) ** 2 for i in range(n)]


def _blurred(scores: Sequence[float], share: float) -> list[float]:
    """Each score mixed with the mean of its neighbours; levels ruled out lend and take nothing."""
    out = []
    for i, score in enumerate(scores):
        near = [scores[j] for j in (i - 1, i + 1) if 0 <= j < len(scores)]
        near = [s for s in near if s != -math.inf]
        mean = math.fsum(near) / len(near) if near else score
        out.append((1 - share) * score + share * mean)
    return out
