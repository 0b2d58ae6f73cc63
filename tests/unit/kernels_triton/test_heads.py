"""Pointer and label heads of a whole GPU pass under Triton's interpreter: against plain torch, and
a question alone against the same question among others, bit for bit."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from systone.errors import ConfigError
from systone.execute.gpu_arena import Arena, Room
from systone.execute.gpu_head import check_head, readout_width
from systone.execute.selfcheck_rows import pass_of
from systone.kernels import config as kernel_config
from systone.kernels.config import GemmTile
from systone.kernels.head import reference
from systone.kernels.head import triton as head
from systone.nn.config import TextConfig
from systone.nn.decision import DecisionModel
from systone.nn.device_tables import DeviceTables
from systone.nn.label_model import LabelModel
from systone.nn.pointer_model import PointerModel
from systone.plan import PassTables, Row, Segment
from tests.gpu.cases import relative
from tests.gpu.eager import EagerPasses
from tests.unit.kernels_triton.test_pass import json_of
from tests.unit.nn.tiny import VOCAB, Checkpoint

CPU = torch.device("cpu")
KINDS = ["linear_attention", "full_attention"]
POINTER = 4  # head width: the interpreter takes a moment for every dot product


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@functools.cache
def checkpoint(*kinds: str) -> Checkpoint:
    return Checkpoint.of(TextConfig.from_json(json_of("9b", list(kinds or KINDS))), seed=3)


def pointer(dtype: torch.dtype = torch.bfloat16, kinds: Sequence[str] = ()) -> PointerModel:
    made = checkpoint(*kinds)
    weight = drawn(2 * POINTER, made.config.hidden_size, seed=5) / 4
    headed = replace(made, head_weight=weight, head_bias=drawn(2 * POINTER, seed=6))
    return PointerModel.build(headed, dtype=dtype)


def labels(width: int, dtype: torch.dtype = torch.bfloat16) -> LabelModel:
    made = checkpoint()
    rows = drawn(width, made.config.hidden_size, seed=7) / 8
    return LabelModel.of_tensors(made.tensors, made.config, rows, dtype=dtype)


def segment(length: int, seed: int) -> Segment:
    return Segment.of(np.random.default_rng(seed).integers(0, VOCAB, length).astype(np.int32))


def question(length: int, ends: Sequence[int], seed: int) -> tuple[Segment, tuple[int, ...]]:
    """A branch and its read-outs: where its options end, and its last token."""
    return segment(length, seed), (*ends, length - 1)


QUESTIONS = [
    question(9, (3, 5), 1),
    question(17, (6,), 2),  # K = 1
    question(5, (1, 2, 3), 3),
]


def request(state: int, questions=QUESTIONS, seed: int = 50) -> list[Row]:
    head = segment(state, seed)
    return [Row((head, branch), i, ends) for i, (branch, ends) in enumerate(questions)]


def run(passes: EagerPasses, *requests: list[Row], shared: bool = True) -> list[np.ndarray]:
    """Scores [R, W] of every row, in order; whatever a pass may read before it writes is NaN."""
    passes.poison()
    tables = pass_of(requests, shared=shared)
    scores, _ = passes.run(tables)
    ends = np.flatnonzero(tables.readout_query == np.arange(tables.readout_query.shape[0])) + 1
    return np.split(scores, ends[:-1])


def room(model: DecisionModel, tokens: int, readouts: int = 64) -> Room:
    return Room(tokens=tokens, readouts=readouts, states=8, width=readout_width(model))


def near_plain_torch(found: list[np.ndarray], tables: PassTables, bf16, wide) -> bool:
    """Whether our error against FP32 is about that of plain torch in bf16."""
    on_device = DeviceTables.of(tables)
    truth, theirs = wide.scores(on_device), bf16.scores(on_device)
    ours = torch.from_numpy(np.concatenate(found))
    assert ours.shape == truth.shape
    return relative(ours, truth) < 1.3 * relative(theirs, truth) + 2e-3


# All lengths of the contract (1, 63, 64, 65, 1023 to 1025 tokens, branches beyond 1024, 255 options
# and levels): scripts/gpu run kev on a GPU, models_kev on plain torch. Here a pass takes a minute.
@pytest.mark.slow
@pytest.mark.parametrize("state", [1, 65])
@pytest.mark.usefixtures("large_tiles")
def test_a_question_has_the_bits_it_has_alone(state: int) -> None:
    model = pointer()
    passes = EagerPasses(model, room(model, 192), fast=False)
    rows, others = request(state), request(7, QUESTIONS[:1], seed=60)
    together = run(passes, rows, others)
    tables = pass_of([rows, others], shared=True)
    assert near_plain_torch(together, tables, model, pointer(torch.float32))
    mine = state % len(rows)
    (alone,) = run(passes, rows[mine : mine + 1], shared=False)
    assert np.isfinite(alone).all()
    assert np.array_equal(alone, together[mine])


@pytest.mark.slow
@pytest.mark.usefixtures("large_tiles")
def test_255_options_in_company() -> None:
    model = pointer(kinds=KINDS[1:])  # the other layer's bits, the tests above hold
    passes = EagerPasses(model, room(model, 320, 512), fast=False)
    many = question(257, range(1, 256), 8)  # every option ends in a token of its own
    rows = request(3, [QUESTIONS[0], many])
    together = run(passes, rows)
    assert together[1].shape == (256, 1)
    assert len(np.unique(together[1])) > 200
    assert np.array_equal(run(passes, rows[1:], shared=False)[0], together[1])


@pytest.mark.slow
@pytest.mark.usefixtures("large_tiles")
def test_label_logits_have_their_bits_in_any_company() -> None:
    width = 255
    model = labels(width)
    passes = EagerPasses(model, room(model, 128), fast=False)
    rows = [Row((segment(20, 9), segment(n, n)), i) for i, n in enumerate((5, 18))]
    together = run(passes, rows)
    tables = pass_of([rows], shared=True)
    assert near_plain_torch(together, tables, model, labels(width, torch.float32))
    (alone,) = run(passes, rows[1:], shared=False)
    assert alone.shape == (1, width)
    assert np.array_equal(alone, together[1])


def test_pointer_head_over_read_outs_keeps_the_bits_of_the_reference() -> None:
    x = drawn(9, 1300, seed=1).bfloat16()
    query_of = torch.tensor([2, 2, 2, 3, 8, 8, 8, 8, 8], dtype=torch.int32)
    maps = (drawn(4, 1300, seed=2), drawn(4, seed=3), drawn(4, 1300, seed=4), drawn(4, seed=5))
    scratch, out = torch.full((2, 11, 4), float("nan")), torch.full((11, 1), float("nan"))
    padded = torch.cat([x, x[:2]]), torch.cat([query_of, query_of[:2]])
    found = head.readout_pointer_head(
        *padded, *maps, out=out, scratch=(scratch[0], scratch[1]),
        live=torch.tensor([9], dtype=torch.int32),
    )  # fmt: skip
    assert torch.equal(found[:9], reference.pointer_head(x, x, query_of, *maps))
    assert found[9:].isnan().all()
    assert scratch[0].isnan().all(dim=1).tolist() == [i not in (2, 3, 8) for i in range(11)]


def test_label_head_keeps_the_bits_of_the_reference() -> None:
    x, rows = drawn(1, 300, seed=1).bfloat16(), drawn(260, 300, seed=2)
    assert torch.equal(head.label_head(x, rows), reference.label_head(x, rows))


def test_heads_that_no_kernel_reads_are_refused() -> None:
    class Other(DecisionModel):
        pass

    known = pointer()
    other = Other(known.stack, known.head_weight, known.head_bias)
    with pytest.raises(ConfigError, match="no head for a Other"):
        readout_width(other)
    narrow = Arena(known.stack.config, Room(tokens=64, readouts=8, states=8), CPU)
    with pytest.raises(ConfigError, match="7 scores a read-out, its arena 1"):
        check_head(labels(7), narrow)
    elements = narrow.elements("last_wide") // 8
    wide = replace(known, head_weight=torch.empty(elements, 64))
    with pytest.raises(ConfigError, match="wider than a layer's projections"):
        check_head(wide, narrow)


@pytest.fixture
def large_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer, larger programs for passes of a thousand tokens and more."""
    tile = GemmTile(256, 256, 64, 4, 2, 1.0)
    table = replace(
        kernel_config.SM90, gemm=(tile,), gated=(), attention_rows=256, attention_keys=64
    )
    monkeypatch.setattr(kernel_config, "SM90", table)
