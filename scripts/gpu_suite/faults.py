"""Planted faults that the exactness comparison or the self-check must see.

Rows: {name, caught} for a fault, {name, rows, equal} for what must hold beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scripts.gpu_suite.exact import Bits, Requests, modes
from systone.execute import selfcheck_start
from systone.execute.gpu_gemm import Shape
from systone.execute.gpu_runner import GpuRunner
from systone.execute.selfcheck_products import check_products, one_of_each_shape
from systone.kernels.attention import triton as attention
from systone.kernels.config import KernelConfig
from systone.kernels.gemm import cublaslt


def fault_rows(runner: GpuRunner, eager: GpuRunner, requests: Requests) -> Iterator[dict[str, Any]]:
    """Faults of a running pass: `caught` says that the comparison or the check saw them."""
    bits, plain = Bits(runner), Bits(eager)
    good = bits.of(requests, "shared")
    refused = split_k_verdicts(runner)
    yield {"name": "fault: split-K allowed", "caught": bool(refused), "refused": refused}
    for name, planted, way in (
        ("a state taken from a sibling", sibling_states(runner), bits),
        ("attention's tile order changed", other_tiles(), plain),
    ):
        with planted:
            wrong = way.of(requests, "shared")
        yield {"name": f"fault: {name}", "caught": not np.array_equal(wrong, good)}
        again = np.array_equal(way.of(requests, "shared"), good)
        yield {"name": f"after: {name}", "rows": len(good), "equal": again}


def hidden_rows(
    start: Callable[[], GpuRunner], requests: Requests, good: np.ndarray, shapes: set[Shape] | None
) -> Iterator[dict[str, Any]]:
    """`start` makes a runner that checks its products; those of `shapes` (None: all) are hidden
    from it. It must say so, run the canonical product there, and keep every bit."""
    with hidden_product(shapes):
        runner = start()
    said = runner.describe()["selfcheck"]
    fell = [mode for mode in said["products"].values() if mode.startswith("canonical, cublaslt")]
    same = np.array_equal(Bits(runner).of(requests), good)
    wanted = len(said["products"]) if shapes is None else len(shapes)
    yield {
        "name": "fault: an operator hidden", "caught": said["refused"] == len(fell) == wanted,
        "rows": len(good), "equal": same, "modes": modes(runner),
    }  # fmt: skip
    runner.close()


def split_k_verdicts(runner: GpuRunner) -> dict[str, int]:
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
def sibling_states(runner: GpuRunner) -> Iterator[None]:
    """Every segment with a parent in a later slot reads the state of the slot before it."""
    stage = runner._passes.stage
    load = stage.load

    def planted(*args: Any, **options: Any) -> Any:
        staged = load(*args, **options)
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
def other_tiles() -> Iterator[None]:
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
def hidden_product(shapes: set[Shape] | None) -> Iterator[None]:
    """Starts inside the block find cuBLASLt wrong for these shapes (None: all), and fall back."""
    known = selfcheck_start.check_products

    def fast(x: Tensor, weight: Tensor) -> Tensor:
        hidden = shapes is None or (weight.shape[0], weight.shape[1]) in shapes
        return _in_two_halves(x, weight) if hidden else cublaslt.linear(x, weight)

    def planted(*args: Any, **options: Any) -> Mapping[Shape, Any]:
        return known(*args, **{**options, "fast": fast})

    selfcheck_start.check_products = planted
    try:
        yield
    finally:
        selfcheck_start.check_products = known


def _in_two_halves(x: Tensor, weight: Tensor) -> Tensor:
    half = weight.shape[1] // 2
    return x[:, :half] @ weight[:, :half].t() + x[:, half:] @ weight[:, half:].t()
