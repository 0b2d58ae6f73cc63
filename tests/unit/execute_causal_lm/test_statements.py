"""Statements: log-probabilities are the model's own, bases belong to the statement alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from systone.config import ModelSettings
from systone.errors import ConfigError, EngineFaultError
from systone.execute.causal_lm import CausalLm
from systone.execute.causal_lm_statements import StatementExecutor
from systone.models.base import Loaded, Readout
from systone.models.label.load import load_directory
from systone.models.label.options import LabelOptions
from systone.models.label.statements import REFERENCES, StatementWork
from systone.protocol.types import (
    Choice,
    ChoiceAnswer,
    Noul,
    NoulAnswer,
    Question,
    Request,
    Score,
    ScoreAnswer,
)

QUESTIONS: dict[str, Question] = {
    "n": Noul("Is the parcel broken?"),
    "sides": Noul(None, {"true": "it is broken"}),
    "c": Choice("Which?", {"x": "glass", "y": None}),
    "s": Score("How?", ["low", "high"]),
}


@pytest.fixture(scope="module")
def loaded(llama: Path) -> Loaded:
    made = load_directory(llama, ModelSettings(source=str(llama)), LabelOptions(mode="statement"))
    made.executor.start()
    return made


def log_prob(directory: Path, before: Any, ids: Any) -> float:
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    whole = torch.from_numpy(np.concatenate([before, ids]).astype(np.int64))[None]
    with torch.no_grad():
        logs = model(whole, use_cache=False).logits[0].double().log_softmax(-1)
    places = range(len(before) - 1, len(before) + len(ids) - 1)
    return float(sum(logs[p, int(i)] for p, i in zip(places, ids, strict=True)))


def test_values_are_the_models_own_log_probabilities(loaded: Loaded, llama: Path) -> None:
    prepared = loaded.adapter.prepare(Request("It fell.", QUESTIONS))
    (readout,) = loaded.executor.execute([prepared])
    assert isinstance(readout, Readout)
    work: StatementWork = prepared.work
    assert len(work.references) == len(REFERENCES)
    for row in (0, 3):
        ids = work.statements[row]
        assert readout.values[row, 0] == pytest.approx(log_prob(llama, work.state, ids), abs=1e-2)
        bases = [log_prob(llama, reference, ids) for reference in work.references]
        assert readout.values[row, 1] == pytest.approx(np.mean(bases), abs=1e-2)


def test_answers_of_every_kind_and_usage_of_every_prompt(loaded: Loaded) -> None:
    prepared = loaded.adapter.prepare(Request("It fell.", QUESTIONS))
    assert len(prepared.work.statements) == 1 + 2 + 2 + 2
    sizes = [s.size for s in prepared.work.statements]
    assert prepared.input_tokens == prepared.work.state.size * 7 + sum(sizes)
    readout = Readout(
        np.array([[-s * (1.0 if i in (1, 3, 5) else 2.0), -s * 1.5] for i, s in enumerate(sizes)],
                 np.float32)
    )  # fmt: skip
    answers = loaded.adapter.finish(prepared, readout).answers
    noul, sides, choice, score = (answers[name] for name in QUESTIONS)
    assert isinstance(noul, NoulAnswer)
    assert isinstance(sides, NoulAnswer)
    assert noul.noul < 0.5  # lifted by -0.5 nats a token
    assert sides.noul < 0.5  # "false" is lifted, "true" is not
    assert isinstance(choice, ChoiceAnswer)
    assert choice.choice == "x"
    assert choice.probabilities["x"] == pytest.approx(1 / (1 + np.exp(-1.0)))
    assert isinstance(score, ScoreAnswer)
    assert score.probabilities[0] > 0.7


def test_bases_are_kept_and_other_requests_move_nothing(loaded: Loaded) -> None:
    first, second = (
        loaded.adapter.prepare(Request(state, QUESTIONS)) for state in ("It fell.", "All is well.")
    )
    (alone,) = loaded.executor.execute([first])
    known = loaded.executor.describe()["cached_statements"]
    _, again = loaded.executor.execute([second, first])
    assert isinstance(alone, Readout)
    assert isinstance(again, Readout)
    assert np.array_equal(alone.values, again.values)
    assert loaded.executor.describe()["cached_statements"] == known == 7


def test_values_that_are_not_finite_are_an_error(loaded: Loaded) -> None:
    prepared = loaded.adapter.prepare(Request("It fell.", {"n": Noul("Is it late?")}))
    with pytest.raises(EngineFaultError) as fault:
        loaded.adapter.finish(prepared, Readout(np.full((1, 2), np.nan, np.float32)))
    assert fault.value.code == "non_finite_output"


def test_a_model_whose_cache_cannot_be_continued_is_refused(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CausalLm, "_probe", lambda self: False)
    executor = StatementExecutor(CausalLm(llama, torch.device("cpu"), torch.float32))
    with pytest.raises(ConfigError, match="cache"):
        executor.start()
