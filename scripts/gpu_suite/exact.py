"""The same bits however rows are run: the list of issue equalities that one device call can hold.

A check compares final hidden states and head scores of every row, bit for bit, with the row alone,
eager. Rows: {name, rows, equal, modes}; `equal` is null (not run) where an operator fell back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from systone.execute import selfcheck_start
from systone.execute.gpu_runner import GpuRunner
from systone.execute.graph_store import MISSES_BEFORE_RECAPTURE
from systone.execute.selfcheck_products import check_products, one_of_each_shape
from systone.kernels.attention import triton as attention
from systone.kernels.config import KernelConfig
from systone.kernels.gemm import cublaslt
from systone.plan import (
    PassBudget,
    Row,
    Segment,
    Sharing,
    build_tables,
    build_trie,
    cut_passes,
)

Requests = Sequence[Sequence[Row]]
VOCABULARY = 200_000
NORMAL = PassBudget(4096, 1024, 256)


def long_list() -> list[list[Row]]:
    """Lengths at borders, 255 options, forks at every alignment, short segments, neighbours."""
    rng = np.random.default_rng(11)
    draw = lambda n: Segment.of(rng.integers(0, VOCABULARY, n).astype(np.int32))  # noqa: E731
    made = [[Row((draw(n),), 0)] for n in (1, 63, 64, 65, 4095, 4096, 4097, 16384)]
    state, asked = draw(333), draw(12)
    made.append([Row((state, asked, draw(3 + i % 23)), 0) for i in range(255)])
    for align in range(64):
        state = draw(64 + align)
        made.append([Row((state, draw(n)), 0) for n in (9, 1 + align)])
    made.append([Row((Segment.of([7] * 4000), draw(n)), 0) for n in (1, 2, 30)])
    made.append([Row((draw(1), draw(2), draw(1), draw(2)), 0) for _ in range(3)])
    return made


class Bits:
    """Runs requests in some way; bits by (request, row) as one array."""

    def __init__(self, runner: GpuRunner) -> None:
        self.runner = runner

    def of(
        self, requests: Requests, policy: str = "default", budget: PassBudget = NORMAL,
        order: Sequence[int] | None = None,
    ) -> np.ndarray:  # fmt: skip
        order = range(len(requests)) if order is None else order
        tries = [build_trie(list(requests[i]), Sharing(policy)) for i in order]
        found: dict[tuple[int, int], np.ndarray] = {}
        for parts in cut_passes(tries, budget):
            tables = build_tables(parts)
            scores = self.runner.run(tables)
            hidden = self.runner.last_hidden(scores.shape[0]).view(torch.int16).cpu().numpy()
            both = np.concatenate([hidden.astype(np.int32), scores.view(np.int32)], axis=1)
            for part, row, value in zip(
                tables.readout_request, tables.readout_row, both, strict=True
            ):
                found[order[parts[part].request], int(row)] = value
        return np.stack([found[i, j] for i, rows in enumerate(requests) for j in range(len(rows))])

    def alone(self, requests: Requests) -> np.ndarray:
        return np.concatenate([self.of([[row]], "off") for rows in requests for row in rows])


def exact_rows(runner: GpuRunner, eager: GpuRunner, requests: Requests) -> Iterator[dict[str, Any]]:
    """Every way to run them against each row alone on the eager runner."""
    bits, plain = Bits(runner), Bits(eager)
    truth = plain.alone(requests)
    shuffled = random.Random(3).sample(range(len(requests)), len(requests))
    narrow, wide = PassBudget(1024, 64, 32), PassBudget(16384, 1024, 256)
    ways: dict[str, Callable[[], np.ndarray]] = {
        "alone, graphs": lambda: bits.alone(requests),
        "packed, graphs": lambda: bits.of(requests, "off"),
        "packed, eager": lambda: plain.of(requests, "off"),
        "permuted": lambda: bits.of(requests, "default", order=shuffled),
        **{f"policy {p}": lambda p=p: bits.of(requests, p)
           for p in ("off", "fixed", "default", "shared", "auto")},
        "budget 1024 tokens, 64 rows: split requests": lambda: bits.of(requests, "shared", narrow),
        "budget 16384 tokens": lambda: bits.of(requests, "shared", wide),
        "shared, eager": lambda: plain.of(requests, "shared"),
        "pack off": lambda: plain.of(requests, "off", PassBudget(4096, 1, 256)),
        "after eviction and capture again": lambda: _recaptured(bits, requests),
        "again": lambda: bits.of(requests, "default"),
    }  # fmt: skip
    for name, way in ways.items():
        yield _check(name, runner, len(truth), np.array_equal(way(), truth))


def _recaptured(bits: Bits, requests: Requests) -> np.ndarray:
    trunks = bits.runner._passes.trunks
    for key in list(trunks._held)[::2]:
        trunks.evict(key)
    for _ in range(MISSES_BEFORE_RECAPTURE):
        found = bits.of(requests, "shared")
    return found


def _check(name: str, runner: GpuRunner, rows: int, equal: bool) -> dict[str, Any]:
    check = runner.describe()["selfcheck"]
    ran = check["refused"] == 0
    return {"name": name, "rows": rows, "equal": equal if ran else None,
            "modes": "all proven" if ran else check}  # fmt: skip


def fault_rows(runner: GpuRunner, eager: GpuRunner, requests: Requests) -> Iterator[dict[str, Any]]:
    """Planted faults: `caught` says that the comparison or the check saw them."""
    bits, plain = Bits(runner), Bits(eager)
    good = bits.of(requests, "shared")
    refused = _split_k_verdicts(runner)
    yield {"name": "fault: split-K allowed", "caught": bool(refused), "refused": refused}
    for name, planted, way in (
        ("a state taken from a sibling", _sibling_states(runner), bits),
        ("attention's tile order changed", _other_tiles(), plain),
    ):
        with planted:
            wrong = way.of(requests, "shared")
        yield {"name": f"fault: {name}", "caught": not np.array_equal(wrong, good)}
        again = np.array_equal(way.of(requests, "shared"), good)
        yield {"name": f"after: {name}", "rows": len(good), "equal": again}


def _split_k_verdicts(runner: GpuRunner) -> dict[str, int]:
    """Where cuBLASLt with split-K allowed is refused: the first row count, by shape."""
    layers = runner._passes.split.model.stack.weights.layers[:4]
    weights = one_of_each_shape(
        [w for layer in layers for w in (layer.mixer.in_proj, layer.mixer.out_proj, layer.down)]
    )
    with torch.inference_mode(), cublaslt.exact_blas():
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = (True, True)
        found = check_products(weights, (8, 16, 64, 128, 256, 512), {})
    return {f"{n}x{k}": v.cublaslt for (n, k), v in found.items() if v.cublaslt is not None}


@contextmanager
def _sibling_states(runner: GpuRunner) -> Iterator[None]:
    """Every segment with a parent in a later slot reads the state of the slot before it."""
    stage = runner._passes.stage
    load = stage.load

    def planted(*args: Any) -> Any:
        staged = load(*args)
        parent = staged.scan_entries[:, 2]
        with torch.cuda.stream(runner._stream), torch.inference_mode():
            parent.copy_(torch.where(parent > 0, parent - 1, parent))
        return staged

    stage.load = planted
    try:
        yield
    finally:
        stage.load = load


@contextmanager
def _other_tiles() -> Iterator[None]:
    """Attention sums over blocks of half as many keys. For eager launches."""
    known = attention.table_of

    def planted(device: torch.device) -> tuple[KernelConfig, int]:
        table, processors = known(device)
        return replace(table, attention_keys=table.attention_keys // 2), processors

    attention.table_of = planted
    try:
        yield
    finally:
        attention.table_of = known


@contextmanager
def hidden_product() -> Iterator[None]:
    """Starts inside the block find cuBLASLt wrong for every shape, and fall back."""
    known = selfcheck_start.check_products

    def planted(*args: Any) -> Any:
        return known(*args, fast=_in_two_halves)

    selfcheck_start.check_products = planted
    try:
        yield
    finally:
        selfcheck_start.check_products = known


def _in_two_halves(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    half = weight.shape[1] // 2
    return x[:, :half] @ weight[:, :half].t() + x[:, half:] @ weight[:, half:].t()
