"""The oracle that keeps bf16 weights is the FP32 model, and leaves the bf16 one as it was."""

from __future__ import annotations

import random
from copy import deepcopy

import torch

from scripts.gpu_suite.wide_oracle import in_fp32, product_error
from tests.unit.nn.tiny import official_hidden, random_ids, relative_l2


def test_it_computes_what_the_fp32_model_computes(tiny, layout: str) -> None:
    rng = random.Random(4)
    rows = [random_ids(rng, n) for n in (1, 40, 40, 70)]
    exact = tiny(layout)
    wanted = exact.official_hidden(rows)
    rough = deepcopy(tiny(layout, torch.bfloat16).official)
    rough.rotary_emb = exact.official.rotary_emb  # a cast model's own frequencies are rounded
    before = official_hidden(rough, rows)
    with torch.inference_mode(), in_fp32(rough):
        found = official_hidden(rough, rows)
    assert found.dtype == torch.float32
    assert relative_l2(found, wanted).max() < 1e-5
    assert torch.equal(official_hidden(rough, rows), before)
    assert {p.dtype for p in rough.parameters()} == {torch.bfloat16}


def test_three_parts_are_a_whole_product() -> None:
    weight = torch.randn(40, 200, generator=torch.Generator().manual_seed(1)).bfloat16()
    assert product_error(weight) < 1e-6
