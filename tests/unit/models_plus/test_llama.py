"""The forward equals transformers' on the same weights, whole or continued from a cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from systone.errors import ConfigError
from systone.models.mini_plus import llama as module
from systone.models.mini_plus.gguf import GgufFile, read_gguf
from systone.models.mini_plus.llama import Llama, load_llama
from tests.unit.models_plus.oracle import logits
from tests.unit.models_plus.tiny_gguf import metadata, tiny_tensors

Write = Callable[..., Path]
IDS = np.random.default_rng(5).integers(0, 200, 67)


@pytest.fixture(params=[True, False], ids=["tied", "own-head"])
def file(request: pytest.FixtureRequest, write_gguf: Write) -> GgufFile:
    return read_gguf(write_gguf(tensors=tiny_tensors(tied=request.param)))


@pytest.mark.slow
def test_logits_equal_transformers(file: GgufFile) -> None:
    llama = load_llama(file)
    hidden, _ = llama.forward(IDS)
    expected = logits(file, IDS)
    assert np.abs(expected).max() > 1
    assert np.abs(hidden @ llama.head.T - expected).max() < 1e-4


@pytest.mark.parametrize("cut", [1, 13, 64, 66])
def test_a_continuation_equals_the_whole(write_gguf: Write, cut: int) -> None:
    llama = load_llama(read_gguf(write_gguf()))
    whole, _ = llama.forward(IDS)
    first, cache = llama.forward(IDS[:cut])
    second, _ = llama.forward(IDS[cut:], cache)
    assert np.abs(np.concatenate([first, second]) - whole).max() < 1e-4


def test_a_cache_serves_several_continuations(write_gguf: Write) -> None:
    llama = load_llama(read_gguf(write_gguf()))
    _, cache = llama.forward(IDS[:20])
    once, _ = llama.forward(IDS[20:40], cache)
    llama.forward(IDS[40:], cache)
    again, _ = llama.forward(IDS[20:40], cache)
    assert np.array_equal(once, again)


def test_log_probs_are_normalised_over_the_vocabulary(write_gguf: Write) -> None:
    llama = load_llama(read_gguf(write_gguf()))
    hidden, _ = llama.forward(IDS[:1])
    every = np.arange(len(llama.head))
    repeated = np.repeat(hidden, len(every), axis=0)
    assert np.exp(llama.log_probs(repeated, every)).sum() == pytest.approx(1, abs=1e-6)


def test_long_texts_are_read_in_blocks_without_a_seam(
    write_gguf: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    llama = load_llama(read_gguf(write_gguf()))
    whole, cache = llama.forward(IDS)
    chances = llama.log_probs(whole, IDS)
    monkeypatch.setattr(module, "BLOCK", 16)
    hidden, blocked = llama.forward(IDS)
    assert np.abs(hidden - whole).max() < 1e-4
    assert np.abs(llama.log_probs(hidden, IDS) - chances).max() < 1e-4
    assert blocked[1][0].shape == cache[1][0].shape


def test_progress_ends_at_one(write_gguf: Write) -> None:
    heard: list[float] = []
    load_llama(read_gguf(write_gguf()), heard.append)
    assert heard == [0.5, 1.0]


def test_memory_counts_every_weight_once(write_gguf: Write) -> None:
    tensors = tiny_tensors()
    llama: Llama = load_llama(read_gguf(write_gguf(tensors=tensors)))
    weights = sum(int(np.prod(shape)) for shape, _, _ in tensors.values())
    assert llama.num_bytes == 4 * weights


@pytest.mark.parametrize(
    "change", [{"general.architecture": "qwen2"}, {"llama.rope.scaling.type": "yarn"}]
)
def test_another_architecture_is_refused(write_gguf: Write, change: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="not a plain llama model"):
        load_llama(read_gguf(write_gguf(metadata() | change)))


def test_a_missing_weight_is_named(write_gguf: Write) -> None:
    tensors = tiny_tensors()
    del tensors["blk.1.ffn_up.weight"]
    with pytest.raises(ConfigError, match=r"no tensor 'blk\.1\.ffn_up\.weight'"):
        load_llama(read_gguf(write_gguf(tensors=tensors)))
