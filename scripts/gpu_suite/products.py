"""Times matrix products of the 9B, 4B and 27B: ours by the table and by any tile, and cuBLAS."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

import torch
from torch import Tensor

from scripts.gpu_suite.sweep_tiles import Point, label
from scripts.gpu_suite.timing import capture, in_turn
from systone.kernels.gemm import cublaslt, gated
from systone.kernels.gemm import triton as gemm
from systone.kernels.gemm.tiles import GemmTile
from systone.kernels.swiglu import triton as swiglu

GATED = "gate_up"
SHAPES = {
    "9b": {"qkvzba": (12352, 4096), "qgkv": (10240, 4096), "out": (4096, 4096),
           GATED: (24576, 4096), "down": (4096, 12288)},
    "4b": {"qkvzba": (12352, 2560), "qgkv": (10240, 2560), "out": (2560, 4096),
           GATED: (18432, 2560), "down": (2560, 9216)},
    "27b": {"qkvzba": (16480, 5120), "qgkv": (14336, 5120), "out": (5120, 6144),
            GATED: (34816, 5120), "down": (5120, 17408)},
}  # fmt: skip


def measure(point: Point, candidates: list[GemmTile], processors: int) -> dict[str, Any]:
    """Milliseconds of cuBLAS as it comes, of cuBLASLt as we use it, of what the table picks and of
    every candidate, in turn; and the ones whose bits aren't cuBLASLt's. Weights enough to miss the
    cache, as in a model. The gated product: beside product and activation, no `table` where it
    keeps to two launches."""
    m, n, k, fused = point
    draw = {"device": "cuda", "dtype": torch.bfloat16}
    weights = [torch.randn(n, k, **draw) * 0.02 for _ in range(max(2, ceil(80e6 / (n * k))))]
    x, out = torch.randn(m, k, **draw), torch.empty(m, n, **draw)
    half = torch.empty(m, n // 2, **draw)
    turns = 2 if m <= 512 else 1

    def run(tile: GemmTile, weight: Tensor) -> Tensor:
        if fused:
            return gated.gated_with(x, weight, half, tile, processors)
        return gemm.linear_with(x, weight, out, tile, processors, descriptors=True)

    def library(weight: Tensor) -> Tensor:
        made = cublaslt.linear(x, weight, out=out)
        return swiglu.swiglu(made, out=half) if fused else made

    def table(weight: Tensor) -> Tensor | None:
        if fused:
            return gated.gated(x, weight, out=half)
        return gemm.linear(x, weight, out=out)

    def right(made: Callable[[], Tensor | None]) -> bool:
        out.fill_(torch.nan)  # what a kernel leaves unwritten shows
        half.fill_(torch.nan)
        return torch.equal(made(), truth)

    def graph(one: Callable[[Tensor], object]) -> torch.cuda.CUDAGraph:
        return capture(lambda: [one(w) for _ in range(turns) for w in weights])

    graphs = {"default": graph(library)}
    with cublaslt.exact_blas():
        truth = library(weights[0]).clone()
        graphs["exact"] = graph(library)
        if table(weights[0]) is not None:
            graphs["table"] = graph(table)
        graphs |= {label(t): graph(lambda w, t=t: run(t, w)) for t in candidates}
    wrong = [label(t) for t in candidates if not right(lambda t=t: run(t, weights[0]))]
    if "table" in graphs and not right(lambda: table(weights[0])):
        wrong.append("table")
    found = in_turn(graphs, turns * len(weights))
    return {"op": "gated" if fused else "gemm", "m": m, "n": n, "k": k, "ms": found, "wrong": wrong}
