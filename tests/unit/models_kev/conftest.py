"""A Kev adapter over the real tokenizer, and tiny synthetic weights on the CPU."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch

from systone.config import ModelSettings
from systone.models.base import Loaded
from systone.models.kev import KevAdapter, KevCheckpoint, KevSettings
from systone.models.kev.load import serve_weights
from systone.weights.merged import ServedWeights
from systone.weights.synth import synthesize_served
from tests.unit.models_open_jev.conftest import (  # noqa: F401 - fixtures
    tokenizer,
    tokenizer_directories,
    tokenizer_directory,
    tokenizers,
)

FOUR_B = KevCheckpoint(
    name="kev-4b",
    base="Qwen/Qwen3.5-4B-Base",
    base_revision="1001bb4d826a52d1f399e183466143f4da7b741b",
    revision="139fdd94f1b6a6ad80cc15e08fcb99cac885a101",
    release_date="2026-01-31",
    temperature=2.406050072164233,
)


@pytest.fixture
def adapter(tokenizer) -> KevAdapter:  # noqa: F811
    return KevAdapter(FOUR_B, tokenizer)


@pytest.fixture
def adapter_with(tokenizer) -> Callable[..., KevAdapter]:  # noqa: F811
    """Makes an adapter of the 4B with the settings given."""
    return lambda **settings: KevAdapter(FOUR_B, tokenizer, KevSettings(**settings))


@pytest.fixture(scope="session")
def serve(tokenizer, tokenizer_directory) -> Callable[..., Loaded]:  # noqa: F811
    """Makes a model of tiny weights with the settings given, started unless told otherwise."""
    torch.set_num_threads(1)  # tiny products: more threads only wait for each other

    @cache
    def drawn(seed: int) -> ServedWeights:
        return synthesize_served("kev-4b", "tiny", seed, tokenizer=tokenizer_directory)

    def make(seed: int = 1, *, start: bool = True, **changes) -> Loaded:
        weights = drawn(seed)
        weights = replace(weights, tensors=dict(weights.tensors))  # the executor takes them over
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("systone.models.kev.load.load_tokenizer", lambda directory: tokenizer)
            settings = ModelSettings(source="D", device="cpu", **changes)
            loaded = serve_weights(weights, settings, release_date="2026-01-31")
        if start:
            loaded.executor.start()
        return loaded

    return make


@pytest.fixture(scope="session")
def loaded(serve) -> Loaded:
    return serve()
