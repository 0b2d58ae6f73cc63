"""The last layer's shortened work gives the same rows, whichever kind of layer it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from systone.nn.device_tables import DeviceTables
from systone.nn.qwen3_5 import TextStack
from tests.numerics import FP32_HIDDEN_REL_L2
from tests.unit.nn.naive_tables import naive_tables
from tests.unit.nn.tiny import flat, random_ids, relative_l2


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 6])
def test_any_last_layer_equals_transformers(tiny, layers: int) -> None:
    """One layer: nothing but the last. Six: it is linear attention, four: full attention."""
    rng = random.Random(layers)
    state = random_ids(rng, 70)
    rows = [[state, random_ids(rng, n)] for n in (1, 5, 64)]
    model = tiny("27b", layers=layers)
    got = model.hidden(naive_tables([rows]))
    assert relative_l2(got, model.official_hidden([flat(r) for r in rows])).max() <= (
        FP32_HIDDEN_REL_L2
    )


def test_work_of_the_last_layer_is_for_readout_rows(tiny) -> None:
    """Every product of the last layer but the key/value projection has R rows, not T."""
    model = tiny("9b", layers=4)
    stack, seen = model.ours.stack, []
    counted = replace(stack.ops, linear=_recording(stack.ops.linear, seen))
    rng = random.Random(1)
    tables = DeviceTables.of(naive_tables([[[random_ids(rng, 40)], [random_ids(rng, 30)]]]))
    with torch.inference_mode():
        TextStack(stack.config, stack.weights, counted).readouts(tables)
    config = stack.config
    kv, q = 2 * config.num_kv_heads * config.head_dim, 2 * config.num_heads * config.head_dim
    h, inner = config.hidden_size, 2 * config.intermediate_size
    assert seen[-5:] == [(70, kv), (2, q), (2, h), (2, inner), (2, h)]


def _recording(linear: Callable[..., Tensor], seen: list[tuple[int, int]]) -> Callable[..., Tensor]:
    def recorded(x: Tensor, weight: Tensor, **options: Any) -> Tensor:
        seen.append((x.shape[0], weight.shape[0]))
        return linear(x, weight, **options)

    return recorded


def test_a_row_may_end_inside_another(tiny) -> None:
    """A read-out on an inner segment, and the same row twice."""
    rng = random.Random(2)
    first, second = random_ids(rng, 9), random_ids(rng, 4)
    model = tiny("9b")
    rows = [[first], [first, second], [first]]
    got = model.hidden(naive_tables([rows]))
    assert relative_l2(got, model.official_hidden([flat(r) for r in rows])).max() <= (
        FP32_HIDDEN_REL_L2
    )
    assert torch.equal(got[0], got[2])
