"""A GPU draws, merges and loads to the bits of the CPU."""

from __future__ import annotations

import pytest
import torch

from systone.weights.merge import check_rule, merge
from systone.weights.synth import serve_recipe
from systone.weights.synth.noise import normal
from tests.unit.weights.micro import SEED, micro

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_draws_have_the_same_bits() -> None:
    settings = {"seed": 1, "name": "x", "std": 0.3, "dtype": torch.bfloat16}
    here = normal((1001, 37), **settings)  # type: ignore[arg-type]
    there = normal((1001, 37), device="cuda", **settings)  # type: ignore[arg-type]
    assert torch.equal(there.cpu(), here)


@pytest.mark.parametrize("rule", ["double-rounding", "single-rounding", "unrounded"])
def test_merges_have_the_same_bits(rule: str) -> None:
    w = normal((8192, 4096), seed=1, name="w", std=0.02, dtype=torch.bfloat16)
    a = normal((8, 4096), seed=1, name="a", std=0.02, dtype=torch.float32)
    b = normal((8192, 8), seed=1, name="b", std=0.02, dtype=torch.float32)
    here = merge(w, a, b, 2.0, check_rule(rule))
    there = merge(w.cuda(), a, b, 2.0, check_rule(rule))
    assert torch.equal(there.cpu(), here)


@pytest.mark.parametrize("name", ["open-jev-9b", "open-jev-27b-v1.1"])
def test_served_weights_have_the_same_bits(name: str) -> None:
    here, there = (serve_recipe(micro(name), SEED, device) for device in ("cpu", "cuda"))
    for tensor_name, tensor in here.tensors.items():
        assert torch.equal(there.tensors[tensor_name].cpu(), tensor)
    assert there.head_weight.device.type == "cuda"
