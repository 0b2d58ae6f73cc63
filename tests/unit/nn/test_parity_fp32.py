"""The FP32 stack equals transformers on the CPU, whatever shares or surrounds a row."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from tests.numerics import FP32_HIDDEN_REL_L2, FP32_LOGIT_ABS
from tests.unit.nn.naive_tables import Path, naive_tables
from tests.unit.nn.tiny import flat, random_ids, relative_l2

LENGTHS = (1, 2, 3, 63, 64, 65, 127, 128, 500)


def check(model, requests: list[list[Path]], *, shared: bool = True) -> torch.Tensor:
    """Every row of the pass against transformers on that row alone; returns our read-outs."""
    rows = [flat(path) for request in requests for path in request]
    tables = naive_tables(requests, shared=shared)
    expected, got = model.official_hidden(rows), model.hidden(tables)
    assert relative_l2(got, expected).max() <= FP32_HIDDEN_REL_L2
    head = model.ours
    logits = expected.double() @ head.head_weight[0].double() + head.head_bias.double()
    assert (model.scores(tables)[:, 0] - logits).abs().max() <= FP32_LOGIT_ABS
    return got


def cut(rng: random.Random, ids: list[int]) -> Path:
    """A row in one to three segments, cut anywhere."""
    marks = sorted(rng.sample(range(1, len(ids)), min(len(ids) - 1, rng.randrange(3))))
    return [ids[a:b] for a, b in itertools.pairwise([0, *marks, len(ids)])]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_row_alone(tiny, layout: str, length: int) -> None:
    rng = random.Random(length)
    check(tiny(layout), [[[random_ids(rng, length)]]])


@pytest.mark.parametrize("order", ["given", "reversed", "shuffled"])
def test_rows_packed_with_neighbours(tiny, layout: str, order: str) -> None:
    """Neighbours are other lengths, and tries that fork at every kind of border."""
    rng = random.Random(7)
    requests = [[cut(rng, random_ids(rng, n))] for n in LENGTHS]
    state = random_ids(rng, 65)
    requests.append(
        [[state, random_ids(rng, n), random_ids(rng, m)] for n in (1, 64) for m in (2, 3)]
    )
    if order == "reversed":
        requests.reverse()
    elif order == "shuffled":
        rng.shuffle(requests)
    check(tiny(layout), requests)


@pytest.mark.parametrize("shared", [True, False])
def test_sharing_a_prefix(tiny, layout: str, shared: bool) -> None:
    rng = random.Random(11)
    state, question, other = (random_ids(rng, n) for n in (130, 17, 64))
    rows = [[state, q, random_ids(rng, n)] for q in (question, other) for n in (1, 5, 64)]
    check(tiny(layout), [rows, rows[:2]], shared=shared)


def test_sharing_changes_rounding_only(tiny, layout: str) -> None:
    rng = random.Random(12)
    state = random_ids(rng, 100)
    rows = [[state, random_ids(rng, 9), random_ids(rng, n)] for n in (3, 4, 5)]
    model = tiny(layout)
    together, apart = (model.hidden(naive_tables([rows], shared=s)) for s in (True, False))
    assert relative_l2(together, apart).max() < FP32_HIDDEN_REL_L2 / 10


@pytest.mark.parametrize("short", [1, 2])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_short_segments_at_every_depth(tiny, layout: str, depth: int, short: int) -> None:
    """A segment of one or two tokens as root, inner node and leaf of paths up to four deep."""
    rng = random.Random(depth * 10 + short)
    rows: list[Path] = []
    for at in range(depth):
        trunk = [random_ids(rng, short if i == at else 6) for i in range(depth)]
        rows += [trunk, [*trunk[:-1], random_ids(rng, short)], [*trunk, random_ids(rng, 2)]]
    check(tiny(layout), [rows])


def test_a_long_leaf_below_single_tokens(tiny, layout: str) -> None:
    rng = random.Random(3)
    trunk = [random_ids(rng, 1) for _ in range(3)]
    check(tiny(layout), [[[*trunk, random_ids(rng, 500)], [*trunk, random_ids(rng, 3)]]])


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_all_short_lengths(tiny, layout: str, shared: bool) -> None:
    """Paths of lengths 0..5 x 0..5 x 0..5; a segment of length 0 is absent."""
    rng = random.Random(5)
    state, question, option = (random_ids(rng, 5) for _ in range(3))
    shapes = [s for s in itertools.product(range(6), repeat=3) if any(s)]
    rows = [[state[:a], question[:b], option[:c]] for a, b, c in shapes]
    check(tiny(layout), [rows], shared=shared)


@pytest.mark.slow
def test_a_row_of_16384_tokens(tiny) -> None:
    """The contract's longest row, as one segment and cut near its end, beside a short one."""
    rng = random.Random(16)
    ids = random_ids(rng, 16384)
    check(tiny("9b", layers=4), [[[ids[:16000], ids[16000:]]], [[ids[:70]]]])


def test_128_257_511_packed_in_every_order(tiny) -> None:
    rng = random.Random(128)
    rows = [[random_ids(rng, n)] for n in (128, 257, 511)]
    for order in itertools.permutations(rows):
        check(tiny("27b"), [[row] for row in order])


@pytest.mark.parametrize("count", [3, 16, 17, 33])
def test_many_candidates(tiny, count: int) -> None:
    rng = random.Random(count)
    state, question = random_ids(rng, 33), random_ids(rng, 12)
    check(tiny("27b"), [[[state, question, random_ids(rng, 1 + i % 4)] for i in range(count)]])
