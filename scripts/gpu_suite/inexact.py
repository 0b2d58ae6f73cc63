"""A forward as it is served against the same forward with products that may split K.

The fastest inexact settings that torch offers: its default cuBLAS, and cuBLASLt with split-K; one
graph each of one sequence, replayed in turn.
Rows: {name, exact_ms, inexact_ms, ratio, within}; ratio is the fastest inexact time over ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from torch import Tensor

from scripts.gpu_suite.timing import replay_ms
from systone.execute.buckets import Size, readout_bucket, row_bucket
from systone.execute.gpu_gemm import Products
from systone.execute.gpu_runner import GpuRunner
from systone.execute.graph_cuda import CudaCapture
from systone.execute.graph_stage import Capacity
from systone.kernels.gemm.cublaslt import exact_blas
from tests.unit.nn.naive_tables import naive_tables

TOKENS = (64, 128, 256, 512, 1024, 2048, 4096)
ROUNDS = 7
LEAST = 0.98
LIBRARIES = ("cublas", "cublaslt")


def inexact_rows(name: str, runner: GpuRunner) -> Iterator[dict[str, Any]]:
    passes = runner._passes
    split = passes.split
    loose = replace(split, products=LooseProducts(gated=split.products.gated))
    most = split.arena.room.tokens
    with torch.inference_mode(), torch.cuda.stream(runner._stream):
        for tokens in (n for n in TOKENS if n <= most):
            tables = naive_tables([[[[(31 * i) % 200_000 for i in range(tokens)]]]])
            size = Size.of(tables)
            room = Capacity.of_size(size, row_bucket(tokens))
            staged = passes.stage.load(tables, room, readout_bucket(size.readouts))
            capture = CudaCapture(split.model.stack.device)  # a pool dies with its last graph
            graphs = {}
            with exact_blas():
                graphs["exact"] = capture.of(lambda s=staged: split.launch(s))
            for library in LIBRARIES:
                with loose_blas(library):
                    graphs[library] = capture.of(lambda s=staged: loose.launch(s))
            times: dict[str, list[float]] = {key: [] for key in graphs}
            for _ in range(ROUNDS):
                for key, graph in graphs.items():
                    times[key].append(replay_ms(graph.replay, calls=2))
            found = {key: round(median(values), 4) for key, values in times.items()}
            for graph in graphs.values():
                graph.release()
            ours = found.pop("exact")
            ratio = round(min(found.values()) / ours, 4)
            yield {
                "name": f"{name}: speed beside inexact products, {tokens} tokens",
                "exact_ms": ours, "inexact_ms": found, "ratio": ratio, "within": ratio >= LEAST,
            }  # fmt: skip


class LooseProducts(Products):
    """Every product but the fused ones through torch's BLAS, whatever was proven."""

    def linear(self, x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
        return torch.mm(x, weight.t(), out=out)


@contextmanager
def loose_blas(library: str) -> Iterator[None]:
    """One of torch's BLAS libraries with split-K and bf16 partial sums allowed."""
    flags = torch.backends.cuda.matmul
    before, reduction = (
        torch.backends.cuda.preferred_blas_library(),
        flags.allow_bf16_reduced_precision_reduction,
    )
    torch.backends.cuda.preferred_blas_library(library)
    flags.allow_bf16_reduced_precision_reduction = True
    try:
        yield
    finally:
        torch.backends.cuda.preferred_blas_library(before)
        flags.allow_bf16_reduced_precision_reduction = reduction
