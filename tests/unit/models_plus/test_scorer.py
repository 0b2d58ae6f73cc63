"""A statement's score is its lift over the reference texts, whatever is asked beside it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from systone.errors import EngineDownError
from systone.models.mini_plus import scorer as module
from systone.models.mini_plus.gguf import read_gguf
from systone.models.mini_plus.llama import load_llama
from systone.models.mini_plus.prompt import REFERENCES, state_ids, statement_ids
from systone.models.mini_plus.scorer import StatementScorer
from systone.models.mini_plus.tokens import TextTokens

STATE = "The lamp on the desk is out. " * 3
STATEMENTS = ("The lamp is out.", "The desk is wet.", "It is late.", "a", "The lamp is out.")


@pytest.fixture
def path(write_gguf: Callable[..., Path]) -> Path:
    return write_gguf()


@pytest.fixture
def scorer(path: Path) -> Iterator[StatementScorer]:
    scorer = StatementScorer(path, TextTokens(read_gguf(path).metadata), threads=2)
    scorer.start()
    yield scorer
    scorer.close()


def lift(path: Path, state: str, statement: str) -> float:
    """The score's definition, each text read whole and on its own."""
    file = read_gguf(path)
    llama, tokens = load_llama(file), TextTokens(file.metadata)
    tail = statement_ids(tokens, statement)

    def log_prob(text: str) -> float:
        ids = np.concatenate([state_ids(tokens, text), tail])
        logits = (llama.forward(ids)[0] @ llama.head.T).astype(np.float64)
        chances = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        at = np.arange(len(ids) - len(tail), len(ids))
        return float(chances[at - 1, ids[at]].sum())

    base = np.mean([log_prob(reference) for reference in REFERENCES])
    return float(0.75 * np.tanh(0.5 * (log_prob(state) - base) / len(tail) / 0.75))


@pytest.mark.parametrize("statement", ["The lamp is out.", "a"])
@pytest.mark.parametrize("state", [STATE, "x", STATE * 5], ids=["short", "letter", "many-blocks"])
def test_score_is_the_bounded_lift_per_token(
    scorer: StatementScorer, path: Path, state: str, statement: str
) -> None:
    (score,) = scorer.score(state, [statement])
    assert score == pytest.approx(lift(path, state, statement), abs=1e-4)
    assert abs(score) > 1e-3


def test_statements_score_alone_as_together(scorer: StatementScorer) -> None:
    alone = [scorer.score(STATE, [s])[0] for s in STATEMENTS]
    scorer.close()
    scorer.start()
    together = scorer.score(STATE, STATEMENTS)
    assert together == alone
    assert scorer.score(STATE, STATEMENTS[::-1]) == alone[::-1]
    assert len(set(alone)) == 4


def test_reference_texts_lift_nothing_on_average(scorer: StatementScorer) -> None:
    scores = [scorer.score(text, ["The lamp is out."])[0] for text in REFERENCES]
    lifts = [np.arctanh(score / 0.75) for score in scores]
    assert sum(lifts) == pytest.approx(0, abs=1e-6)
    assert max(map(abs, lifts)) > 1e-3


def test_base_terms_are_kept_and_bounded(
    scorer: StatementScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BASES", 2)
    first = scorer.score(STATE, ["one"])
    scorer.score(STATE, ["two"])
    scorer.score(STATE, ["one"])
    scorer.score(STATE, ["three"])
    assert list(scorer._bases) == ["one", "three"]
    scorer.score(STATE, ["two", "four", "five"])
    assert scorer.describe()["cached_statements"] == 2
    assert scorer.score(STATE, ["one"]) == first
    assert scorer.score(STATE, ["six", "seven", "one"])[2:] == first


def test_long_statements_are_not_kept(
    scorer: StatementScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BASE_CHARS", 3)
    assert scorer.score(STATE, ["long"]) == scorer.score(STATE, ["long"])
    assert scorer.describe()["cached_statements"] == 0


def test_known_statements_read_no_reference(
    scorer: StatementScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = module._log_prob

    def counted(llama, read, ids):  # type: ignore[no-untyped-def]
        asked.append(scorer._tokens.decode(ids).strip())
        return real(llama, read, ids)

    monkeypatch.setattr(module, "_log_prob", counted)
    scorer.score(STATE, ["one", "two"])
    assert len(asked) == 2 * (1 + len(REFERENCES))
    asked.clear()
    scorer.score("another state", ["two", "one"])
    assert sorted(asked) == ["one", "two"]


def test_a_closed_scorer_answers_nothing(path: Path) -> None:
    scorer = StatementScorer(path, TextTokens(read_gguf(path).metadata), threads=1)
    with pytest.raises(EngineDownError):
        scorer.score(STATE, ["a"])
    scorer.start()
    assert scorer.describe()["weight_bytes"] > 0
    scorer.close()
    scorer.close()
    assert scorer.describe()["weight_bytes"] == 0
    with pytest.raises(EngineDownError):
        scorer.score(STATE, ["a"])


def test_blas_threads_come_back_on_close(path: Path) -> None:
    from threadpoolctl import ThreadpoolController

    def counts() -> list[int]:
        found = ThreadpoolController().select(internal_api="openblas").info()
        return [library["num_threads"] for library in found]

    before = counts()
    scorer = StatementScorer(path, TextTokens(read_gguf(path).metadata), threads=1)
    scorer.start()
    assert set(counts()) <= {1}
    scorer.close()
    assert counts() == before


def test_slow_loading_reports_progress(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = iter([0.5, 2.5, 2.9, 3.6])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    progress = module._Progress(0.0)
    with caplog.at_level(logging.INFO, logger=module.__name__):
        for share in (0.1, 0.5, 0.7, 0.9):
            progress(share)
    assert [r.getMessage() for r in caplog.records] == [
        "loading SmolLM2-135M: 50% after 2 s",
        "loading SmolLM2-135M: 90% after 4 s",
    ]
