"""Answers to labelled items as one row of figures per question, and their summary.

Owns which measure belongs to which kind of question; asks through a function it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evaluation.items import Labelled
from evaluation.measures import (
    auc,
    brier,
    calibration_error,
    majority,
    mean,
    ranked_probability_score,
)
from systone.protocol.types import (
    Answer,
    Choice,
    ChoiceAnswer,
    NoulAnswer,
    Question,
    Request,
    Score,
    ScoreAnswer,
    Text,
)

__all__ = ["Row", "judge", "summary", "unrelated"]

Ask = Callable[[Request], Answer]


@dataclass(frozen=True, slots=True)
class Row:
    """One question's figures by name; `n` items."""

    id: str
    kind: str
    n: int
    figures: Mapping[str, float]


def judge(labelled: Labelled, ask: Ask) -> Row:
    """Every item of a question asked on its own."""
    pairs = [
        (ask(_request(item.state, labelled.question)), item.expected) for item in labelled.items
    ]
    question = labelled.question
    if isinstance(question, Choice):
        figures = _choice(list(question.criteria), pairs)
    elif isinstance(question, Score):
        figures = _score(pairs)
    else:
        figures = _noul(pairs)
    return Row(labelled.id, question.kind, len(pairs), figures)


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """Means over items (Choice, Score) and over questions (Noul's AUC), named `kind.figure`."""
    out: dict[str, float] = {}
    for kind in ("choice", "noul", "score"):
        chosen = [row for row in rows if row.kind == kind]
        items = sum(row.n for row in chosen)
        for name in chosen[0].figures if chosen else ():
            if kind == "noul" and name == "auc":
                out["noul.auc"] = mean([row.figures["auc"] for row in chosen])
            else:
                total = sum(row.n * row.figures[name] for row in chosen)
                out[f"{kind}.{name}"] = total / items
    return out


def unrelated(groups: Sequence[Labelled], ask: Ask, per_question: int = 12) -> dict[str, float]:
    """How far answers stray from uniform on states taken from other questions.

    `lift`: mean of (max p - 1/n) / (1 - 1/n) over Choices; `noul`: mean |p - 0.5| over Nouls.
    """
    states = [(group.id, item.state) for group in groups for item in group.items]
    lifts, offsets = [], []
    for at, group in enumerate(groups):
        others = [state for id, state in states if id != group.id]
        step = max(1, len(others) // per_question)
        for state in others[at % step :: step][:per_question]:
            answer = ask(_request(state, group.question))
            if isinstance(answer, ChoiceAnswer):
                lifts.append(answer.confidence)
            elif isinstance(answer, NoulAnswer):
                offsets.append(abs(answer.noul - 0.5))
    return {"unrelated.lift": mean(lifts), "unrelated.noul": mean(offsets)}


def _request(state: Text, question: Question) -> Request:
    return Request(state=state, questions={"q": question})


def _choice(names: list[str], pairs: list[tuple[Answer, object]]) -> dict[str, float]:
    n = len(names)
    right, top, errors = [], [], []
    for answer, expected in pairs:
        assert isinstance(answer, ChoiceAnswer)
        right.append(answer.choice == expected)
        top.append(max(answer.probabilities.values()))
        errors.append(brier(list(answer.probabilities.values()), names.index(str(expected))))
    return {
        "accuracy": mean([float(ok) for ok in right]),
        "majority": majority([expected for _, expected in pairs]),
        "brier": mean(errors),
        "uniform_brier": 1 - 1 / n,
        "ece": calibration_error(top, right),
    }


def _noul(pairs: list[tuple[Answer, object]]) -> dict[str, float]:
    yes, no, errors, top, right = [], [], [], [], []
    for answer, expected in pairs:
        assert isinstance(answer, NoulAnswer)
        (yes if expected else no).append(answer.noul)
        errors.append(brier([1 - answer.noul, answer.noul], int(bool(expected))))
        top.append(max(answer.noul, 1 - answer.noul))
        right.append((answer.noul > 0.5) == bool(expected))
    return {
        "auc": auc(yes, no),
        "brier": mean(errors),
        "uniform_brier": 0.5,
        "ece": calibration_error(top, right),
        "accuracy": mean([float(ok) for ok in right]),
    }


def _score(pairs: list[tuple[Answer, object]]) -> dict[str, float]:
    exact, misses, ranked, flat, flat_misses = [], [], [], [], []
    for answer, expected in pairs:
        assert isinstance(answer, ScoreAnswer)
        assert isinstance(expected, int)
        p = answer.probabilities
        exact.append(float(max(range(len(p)), key=lambda i: p[i]) == expected))
        misses.append(abs(answer.score - expected))
        ranked.append(ranked_probability_score(p, expected))
        flat.append(ranked_probability_score([1 / len(p)] * len(p), expected))
        flat_misses.append(abs((len(p) - 1) / 2 - expected))
    return {
        "exact": mean(exact),
        "majority": majority([expected for _, expected in pairs]),
        "mae": mean(misses),
        "uniform_mae": mean(flat_misses),
        "rps": mean(ranked),
        "uniform_rps": mean(flat),
    }
