"""Logits to answers: columns, orders, isolated levels, temperatures. By hand-made logits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from systone.config import ModelSettings
from systone.errors import EngineFaultError, RequestError
from systone.models.base import Readout
from systone.models.label.adapter import LabelAdapter
from systone.models.label.load import load_directory
from systone.models.label.options import Band, LabelOptions, Temperatures
from systone.protocol.types import (
    Asset,
    Choice,
    ChoiceAnswer,
    Decision,
    Noul,
    NoulAnswer,
    Question,
    Request,
    Score,
    ScoreAnswer,
)

LogitOf = Callable[[int, str], float]  # of a row's label
STATS = {"prefix_cache": {}}


def adapter_of(directory: Path, options: LabelOptions) -> LabelAdapter:
    adapter = load_directory(directory, ModelSettings(source=str(directory)), options).adapter
    assert isinstance(adapter, LabelAdapter)
    return adapter


def decided(adapter: LabelAdapter, questions: Mapping[str, Question], logit: LogitOf) -> Decision:
    """The decision when label L of row r has `logit(r, L)`; the label's second form has 9 less."""
    prepared = adapter.prepare(Request("S", questions))
    values = np.full((prepared.cost.rows, len(adapter.labels.token_ids)), -50.0, np.float32)
    sets = (adapter.labels.letters, adapter.labels.words, adapter.labels.digits)
    for row in range(prepared.cost.rows):
        for label in (label for labels in sets for label in labels):
            for form, column in enumerate(label.columns):
                values[row, column] = logit(row, label.text) - 9 * form
    return adapter.finish(prepared, Readout(values, STATS))


def test_answers_are_softmax_over_the_labels_shown(llama: Path) -> None:
    adapter = adapter_of(llama, LabelOptions("onejev"))
    logits = {"A": 1.0, "B": 3.0, "C": 2.0, "D": 40.0}
    questions: dict[str, Question] = {
        "c": Choice("Q", {"x": None, "y": None, "z": None}),
        "n": Noul("Q"),
        "s": Score("Q", ["l", "m", "h"]),
    }
    decision = decided(adapter, questions, lambda _, label: logits.get(label, -20.0))
    choice, noul, score = (decision.answers[name] for name in "cns")
    total = math.exp(1) + math.exp(3) + math.exp(2)
    assert isinstance(choice, ChoiceAnswer)
    assert choice.choice == "y"
    assert choice.probabilities["y"] == pytest.approx(math.exp(3) / total)
    assert isinstance(noul, NoulAnswer)  # yes is shown first: A
    assert noul.noul == pytest.approx(1 / (1 + math.exp(2)))
    assert isinstance(score, ScoreAnswer)
    assert score.probabilities[2] == pytest.approx(math.exp(2) / total)
    assert decision.extras["calibrated"] is False


def test_the_largest_form_of_a_label_counts_where_the_format_says_so(llama: Path) -> None:
    adapter = adapter_of(llama, LabelOptions("letters"))
    prepared = adapter.prepare(Request("S", {"q": Noul("Q")}))
    values = np.zeros((1, len(adapter.labels.token_ids)), np.float32)
    values[0, adapter.labels.letters[0].columns[1]] = 4.0  # " A", shown for yes
    answer = adapter.finish(prepared, Readout(values, STATS)).answers["q"]
    assert isinstance(answer, NoulAnswer)
    assert answer.noul == pytest.approx(1 / (1 + math.exp(-4)))


@pytest.mark.parametrize(("orders", "rows"), [("none", 1), ("reverse", 2), ("rotate", 3)])
def test_averaging_over_orders_takes_a_liking_for_a_place_away(
    llama: Path, orders: Any, rows: int
) -> None:
    adapter = adapter_of(llama, LabelOptions("letters", orders=orders))
    asked = Choice("Q", {"x": None, "y": None, "z": None})
    prepared = adapter.prepare(Request("S", {"q": asked}))
    assert prepared.cost.rows == rows
    # a model that only likes the first place
    decision = decided(adapter, {"q": asked}, lambda _, label: 3.0 if label == "A" else 0.0)
    answer = decision.answers["q"]
    assert isinstance(answer, ChoiceAnswer)
    p = answer.probabilities
    if orders == "none":
        assert p["x"] > 0.9
    if orders == "reverse":
        assert p["x"] == pytest.approx(p["z"])
    if orders == "rotate":
        assert [p[k] for k in "xyz"] == pytest.approx([1 / 3] * 3)


def test_words_keep_their_side_in_every_order(llama: Path) -> None:
    adapter = adapter_of(llama, LabelOptions("anyjev", orders="reverse"))
    decision = decided(adapter, {"q": Noul("Q")}, lambda _, label: 2.0 if label == "Yes" else 0.0)
    answer = decision.answers["q"]
    assert isinstance(answer, NoulAnswer)
    assert answer.noul == pytest.approx(1 / (1 + math.exp(-2)))


def test_isolated_levels_are_normalised_over_the_levels(llama: Path) -> None:
    adapter = adapter_of(llama, LabelOptions("decider"))
    odds = [-1.0, 2.0, 0.5]  # log-odds of yes, level by level
    decision = decided(
        adapter,
        {"q": Score("Q", ["l", "m", "h"])},
        lambda row, label: odds[row] if label == "B" else 0.0,
    )
    answer = decision.answers["q"]
    assert isinstance(answer, ScoreAnswer)
    fits = [1 / (1 + math.exp(-o)) for o in odds]
    assert list(answer.probabilities) == pytest.approx([f / sum(fits) for f in fits])


def test_temperature_is_that_of_kind_and_number(llama: Path) -> None:
    bands = (Band("choice", 3, 3, 2.0), Band("noul", 0, None, 4.0))
    adapter = adapter_of(llama, LabelOptions("onejev", temperatures=Temperatures(bands)))
    questions: dict[str, Question] = {
        "two": Choice("Q", {"x": None, "y": None}),
        "three": Choice("Q", {"x": None, "y": None, "z": None}),
        "n": Noul("Q"),
    }
    decision = decided(adapter, questions, lambda _, label: 2.0 if label == "A" else 0.0)
    two, three, noul = (decision.answers[name] for name in questions)
    assert isinstance(two, ChoiceAnswer)
    assert two.probabilities["x"] == pytest.approx(math.exp(2) / (math.exp(2) + 1))
    assert isinstance(three, ChoiceAnswer)
    assert three.probabilities["x"] == pytest.approx(math.e / (math.e + 2))
    assert isinstance(noul, NoulAnswer)
    assert noul.noul == pytest.approx(1 / (1 + math.exp(-0.5)))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_an_error(llama: Path, bad: float) -> None:
    adapter = adapter_of(llama, LabelOptions("onejev"))
    with pytest.raises(EngineFaultError) as fault:
        decided(adapter, {"q": Noul("Q")}, lambda _, label: bad if label == "A" else 0.0)
    assert fault.value.code == "non_finite_output"


def test_missing_columns_are_an_error(llama: Path) -> None:
    adapter = adapter_of(llama, LabelOptions("onejev"))
    prepared = adapter.prepare(Request("S", {"q": Noul("Q")}))
    with pytest.raises(EngineFaultError, match="logits expected"):
        adapter.finish(prepared, Readout(np.zeros((1, 3), np.float32), STATS))


def test_requests_beyond_the_card_are_refused_by_field(llama: Path) -> None:
    adapter = adapter_of(llama, LabelOptions("onejev"))
    many: dict[str, str | None] = {f"o{i}": None for i in range(256)}
    cases: list[tuple[Request, tuple[str | int, ...]]] = [
        (Request("S", {"q": Choice("Q", many)}), ("questions", "q", "choice", "criteria")),
        (Request("S", {"q": Score("Q", ["l"] * 11)}), ("questions", "q", "score", "criteria")),
        (Request("S", {"q": Noul({"a": math.nan})}), ("questions", "q", "noul", "instructions")),
        (Request("\ud800", {"q": Noul("Q")}), ("state",)),
        (Request("S", {"q": Noul("Q")}, assets={"a": Asset(b"", "png")}), ("assets",)),
    ]
    for request, loc in cases:
        with pytest.raises(RequestError) as refused:
            adapter.prepare(request)
        assert refused.value.faults[0].loc == loc
    adapter.prepare(
        replace(cases[0][0], questions={"q": Choice("Q", dict(list(many.items())[1:]))})
    )
