from __future__ import annotations

import hashlib

import pytest
import torch

from systone.weights.synth.noise import normal, uniform


def draw(shape: tuple[int, ...], seed: int = 1, name: str = "x", **settings: float) -> torch.Tensor:
    return normal(shape, seed=seed, name=name, std=1.0, dtype=torch.float32, **settings)


def splitmix64(key: int, index: int) -> int:
    """The published generator, in Python's own integers."""
    mask = (1 << 64) - 1
    z = (key + (index + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def test_draws_are_those_of_splitmix64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("systone.weights.synth.noise._key", lambda seed, name: 1234567)
    expected = [(splitmix64(1234567, i // 4) >> (16 * (i % 4))) & 0xFFFF for i in range(11)]
    found = uniform(11, seed=0, name="any")
    assert [round(u * 65536 - 0.5) for u in found] == expected


def test_values_are_a_standard_normal_sample() -> None:
    sample = draw((400, 1000)).double()
    assert abs(sample.mean()) < 0.01
    assert abs(sample.std() - 1) < 0.01
    assert abs((sample < -1).double().mean() - 0.1587) < 0.005
    assert 4.0 < sample.abs().max() < 4.4
    rows = torch.corrcoef(sample[:50])
    assert (rows - torch.eye(50)).abs().max() < 0.2


def test_mean_and_size_follow_the_arguments() -> None:
    sample = normal((50_000,), seed=1, name="x", std=0.1, mean=1.0, dtype=torch.bfloat16)
    assert abs(sample.float().mean() - 1.0) < 0.01
    assert abs(sample.float().std() - 0.1) < 0.01


def test_seed_and_name_matter_and_nothing_else() -> None:
    first = draw((64, 64))
    assert torch.equal(draw((64, 64)), first)
    assert not torch.equal(draw((64, 64), seed=2), first)
    assert not torch.equal(draw((64, 64), name="y"), first)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bits_do_not_depend_on_threads(threads: int) -> None:
    torch.set_num_threads(threads)
    sample = normal((2_000_003,), seed=1, name="x", std=1.0, dtype=torch.bfloat16)
    digest = hashlib.sha256(sample.view(torch.int16).numpy().tobytes()).hexdigest()
    assert digest == "e914dc2ad32af373f77719427c5937b48a63c90746cba4272529bd86a5dabb10"


@pytest.mark.parametrize("chunk", [4, 64, 4096])
def test_bits_do_not_depend_on_the_chunk(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    whole = draw((1001,))
    monkeypatch.setattr("systone.weights.synth.noise._CHUNK_CPU", chunk)
    assert torch.equal(draw((1001,)), whole)
