"""An Open-Jev of synthetic weights served whole on the CPU: every policy, packed and not."""

import numpy as np
import pytest
import torch

from systone.config import ModelSettings
from systone.errors import ConfigError
from systone.models.base import Loaded, Readout
from systone.models.open_jev.load import load_directory, serve_weights
from systone.models.qwen_tokens import load_tokenizer
from systone.protocol.types import Decision, Request
from systone.weights.synth import synthesize, synthesize_served
from tests.unit.models_open_jev.vectors import VECTOR_A, VECTOR_A_USAGE

CPU_TOLERANCE = 1e-4  # of a score in FP32: products of torch depend on the number of rows


def settings(**changes) -> ModelSettings:
    return ModelSettings(source="D", device="cpu", **changes)


def served(tokenizer_directory, seed: int = 1, **changes) -> Loaded:
    weights = synthesize_served("open-jev-9b", "tiny", seed, tokenizer=tokenizer_directory)
    return serve_weights(weights, settings(**changes), release_date="2026-01-31")


def decide(loaded: Loaded, *requests: Request) -> list[Decision]:
    batch = [loaded.adapter.prepare(request) for request in requests]
    outcomes = loaded.executor.execute(batch)
    assert all(isinstance(outcome, Readout) for outcome in outcomes), outcomes
    return [loaded.adapter.finish(p, o) for p, o in zip(batch, outcomes, strict=True)]


def scores(decision: Decision) -> np.ndarray:
    return np.array([s for row in decision.extras["scores"].values() for s in row])


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny products: more threads only wait for each other
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", autouse=True)
def _tokenizer_loaded_once(tokenizer):
    """Reading the tokenizer's file takes longer than everything else here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("systone.models.open_jev.load.load_tokenizer", lambda directory: tokenizer)
        yield


@pytest.fixture(scope="module")
def packed(tokenizer_directory) -> Loaded:
    loaded = served(tokenizer_directory)
    loaded.executor.start()
    yield loaded
    loaded.executor.close()


def test_vector_a_is_answered_with_the_contracts_usage(packed):
    (decision,) = decide(packed, VECTOR_A)
    assert decision.usage.input_tokens == VECTOR_A_USAGE
    assert list(decision.answers) == ["route", "refund_review", "urgency"]
    assert scores(decision).shape == (7,)
    assert np.unique(scores(decision)).size == 7
    assert decision.metadata["prefix_cache"]["scope"] == "across_questions"
    assert decision.metadata["prefix_cache"]["saved_tokens"] == 539 - 281


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": "off"},
        {"policy": "shared", "max_batch_rows": 2},
        {"policy": "auto", "max_batch_tokens": 100},
        {"pack": False},
        {"max_batch_states": 1},
    ],
    ids=str,
)
def test_policies_budgets_and_packing_change_no_score(packed, tokenizer_directory, changes):
    other = served(tokenizer_directory, **changes)
    other.executor.start()
    requests = [VECTOR_A, packed.warmup[0]]
    for ours, theirs in zip(decide(packed, *requests), decide(other, *requests), strict=True):
        assert np.abs(scores(ours) - scores(theirs)).max() < CPU_TOLERANCE
        assert ours.usage == theirs.usage
    other.executor.close()


def test_a_row_gets_the_same_score_alone_and_in_company(packed):
    together = decide(packed, VECTOR_A, *packed.warmup, VECTOR_A)
    (alone,) = decide(packed, VECTOR_A)
    for decision in (together[0], together[-1]):
        assert np.abs(scores(decision) - scores(alone)).max() < CPU_TOLERANCE


def test_two_seeds_answer_differently(packed, tokenizer_directory):
    other = served(tokenizer_directory, seed=2)
    other.executor.start()
    (ours,), (theirs,) = decide(packed, VECTOR_A), decide(other, VECTOR_A)
    assert np.abs(scores(ours) - scores(theirs)).min() > 10 * CPU_TOLERANCE
    other.executor.close()


def test_pack_off_runs_one_row_a_pass_and_shares_nothing(tokenizer_directory):
    loaded = served(tokenizer_directory, pack=False)
    described = loaded.executor.describe()
    assert described["policy"] == "off"
    assert described["pass_budget"]["rows"] == 1
    loaded.executor.start()
    outcome = loaded.executor.execute([loaded.adapter.prepare(VECTOR_A)])[0]
    assert outcome.stats["passes"] == 7
    assert outcome.stats["prefix_cache"]["enabled"] is False


def test_synthetic_weights_are_not_called_calibrated(packed):
    assert packed.adapter.card.calibrated is False


def test_settings_reach_the_adapter(tokenizer_directory):
    loaded = served(tokenizer_directory, max_length=8192)
    assert loaded.adapter.card.limits.max_tokens == 8192
    with pytest.raises(ConfigError, match="max_length"):
        served(tokenizer_directory, max_length=20000)


def test_fixed_is_refused_where_nothing_proves_products_invariant(tokenizer_directory):
    with pytest.raises(ConfigError, match="policy fixed"):
        served(tokenizer_directory, policy="fixed").executor.start()


def test_an_absent_gpu_is_refused_by_name(tokenizer_directory, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    weights = synthesize_served("open-jev-9b", "tiny", 1, tokenizer=tokenizer_directory)
    with pytest.raises(ConfigError, match="device cuda:0 is not available"):
        serve_weights(
            weights, ModelSettings(source="D", device="cuda:0"), release_date="2026-01-31"
        )


@pytest.mark.slow
def test_a_synthetic_package_on_disk_answers_as_its_weights_in_memory(packed, tmp_path):
    directory = synthesize("open-jev-9b", "tiny", 1, tmp_path / "D")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("systone.models.open_jev.load.load_tokenizer", load_tokenizer)
        loaded = load_directory(directory, settings())
    loaded.executor.start()
    (ours,), (theirs,) = decide(packed, VECTOR_A), decide(loaded, VECTOR_A)
    assert scores(ours).tolist() == scores(theirs).tolist()
    assert loaded.adapter.card.revision == packed.adapter.card.revision
