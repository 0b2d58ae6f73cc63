"""In bf16 our stack is as close to the FP32 truth as transformers in bf16 with pure-torch GDN.

Position does not lead attention here (`pull` 0): it multiplies noise. GDN heads are as wide as the
real ones: in narrow ones an ill-conditioned norm decides a short row's error by chance.
"""

from __future__ import annotations

import random

import pytest
import torch

from tests.numerics import BF16_MIN_ROWS, BF16_RMS_RATIO, BF16_ROW_RATIO
from tests.unit.nn.naive_tables import naive_tables
from tests.unit.nn.tiny import flat, random_ids, relative_l2

BUCKETS = {"2-8": (3, 7), "9-16": (12, 16), "17-64": (33, 64), "65-96": (65, 96)}


@pytest.mark.slow
@pytest.mark.parametrize("bucket", BUCKETS)
def test_errors_are_no_larger_than_transformers(tiny, layout: str, bucket: str) -> None:
    """Rows are requests of a shared first part and four ends each."""
    rng = random.Random(bucket)
    requests = []
    for length in BUCKETS[bucket]:
        for _ in range(BF16_MIN_ROWS // 8):
            state, ends = random_ids(rng, length // 2), length - length // 2
            requests.append([[state, random_ids(rng, ends)] for _ in range(4)])
    rows = [flat(path) for request in requests for path in request]
    assert len(rows) == BF16_MIN_ROWS

    exact, rough = (
        tiny(layout, dtype, pull=0.0, wide=True) for dtype in (torch.float32, torch.bfloat16)
    )
    truth = exact.official_hidden(rows)
    theirs = relative_l2(rough.official_hidden(rows), truth)
    ours = relative_l2(rough.hidden(naive_tables(requests)), truth)
    rms = ours.square().mean().sqrt() / theirs.square().mean().sqrt()
    assert rms <= BF16_RMS_RATIO
    assert (ours / theirs).max() <= BF16_ROW_RATIO


def test_a_single_token_has_the_very_bits_of_transformers(tiny, layout: str) -> None:
    """Nothing is summed in another order there, so every rounding point shows."""
    rough = tiny(layout, torch.bfloat16)
    rows = [[token] for token in range(40)]
    got = rough.hidden(naive_tables([[[row] for row in rows]]))
    assert torch.equal(got, rough.official_hidden(rows))
