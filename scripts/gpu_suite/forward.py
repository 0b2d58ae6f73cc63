"""A whole forward through its graphs against the matrix products of the same forward alone.

Rows: {model, shape, tokens, bucket, forward_ms, gemm_graph_ms, ratio, gemm_inside_ms,
ratio_inside, forward_sustained_ms, gemm_graph_sustained_ms, ratio_sustained}: one trunk and one
tail, over a graph of the same products at the unpadded row count (the faster of default cuBLAS and
ours), alternated three replays at a time, at one clock therefore; over the products' own time
inside; and alternated as under load, each at the clock that its own power leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from statistics import median
from typing import Any

import torch
from torch import Tensor

from scripts.gpu_suite.inside import products_ms
from scripts.gpu_suite.timing import replay_ms, sustained_ms
from systone.execute.buckets import Size, readout_bucket, row_bucket
from systone.execute.gpu_gemm import projections
from systone.execute.gpu_runner import GpuRunner
from systone.kernels.gemm.cublaslt import exact_blas
from systone.nn.decision import DecisionModel
from systone.plan import PassTables
from tests.gpu.cases import leaves
from tests.unit.nn.naive_tables import naive_tables

ROUNDS = 5
SINGLE = (64, 128, 256, 512, 1024, 2048, 4096)
ODD = (65, 300, 700, 1100, 2100, 3000)


def shapes() -> Iterator[tuple[str, PassTables]]:
    draw = lambda n, seed: [(seed * 7919 + 31 * i) % 200_000 for i in range(n)]  # noqa: E731
    for n in SINGLE:
        yield f"1x{n}", naive_tables([[[draw(n, 1)]]])
    for name, rows in (
        ("4 leaves, T=128", leaves(20, 8, [25] * 4)),
        ("4 leaves, T=256", leaves(148, 8, [25] * 4)),
        ("40 leaves, T=1024", leaves(16, 8, [25] * 40)),
        ("160 leaves, T=4096", leaves(86, 10, [25] * 160)),
    ):
        yield name, naive_tables([[[[t % 199_967 for t in s] for s in row] for row in rows]])
    for count, n in ((8, 32), (8, 128), (16, 128), (32, 128)):
        yield f"{count}x{n}", naive_tables([[[draw(n, i + 1)]] for i in range(count)])
    for n in ODD:
        yield f"1x{n}", naive_tables([[[draw(n, 1)]]])


def forward_rows(
    name: str, runner: GpuRunner, only: Collection[str] = ()
) -> Iterator[dict[str, Any]]:
    passes = runner._passes
    assert passes is not None
    assert runner._stream is not None
    split = passes.split
    floors: dict[tuple[int, int], Callable[[], object]] = {}
    for shape, tables in shapes():
        if only and shape not in only:
            continue
        runner.run(tables)  # stages its tables; replays below read them again
        size = Size.of(tables)
        both = forward_graphs(runner, tables)
        if both is None:
            yield {"model": name, "shape": shape, "tokens": size.tokens, "bucket": None}
            continue
        at = (size.tokens, size.readouts)  # the floor has no padding
        if at not in floors:
            floors = {at: products_alone(split.model, *at, runner._stream)}
        forward, products = [], []
        with torch.cuda.stream(runner._stream):
            for _ in range(ROUNDS):
                products.append(replay_ms(floors[at]))
                forward.append(replay_ms(both))
            inside = products_ms(both)
            load = sustained_ms({"forward": both, "products": floors[at]})
        ours, theirs = median(forward), median(products)
        yield {
            "model": name, "shape": shape, "tokens": size.tokens, "bucket": row_bucket(size.tokens),
            "forward_ms": round(ours, 4), "gemm_graph_ms": round(theirs, 4),
            "ratio": round(ours / theirs, 4),
            "gemm_inside_ms": round(inside, 4), "ratio_inside": round(ours / inside, 4),
            "forward_sustained_ms": round(load["forward"], 4),
            "gemm_graph_sustained_ms": round(load["products"], 4),
            "ratio_sustained": round(load["forward"] / load["products"], 4),
        }  # fmt: skip


def forward_graphs(runner: GpuRunner, tables: PassTables) -> Callable[[], object] | None:
    """Replays the trunk and the tail that a pass of these tables takes; None: one isn't held."""
    passes = runner._passes
    assert passes is not None
    size = Size.of(tables)
    rows, readouts = row_bucket(size.tokens), readout_bucket(size.readouts)
    depths = [depth for depth in passes.settings.depths_of(rows) if depth >= size.depth]
    key = next(((rows, depth) for depth in depths if (rows, depth) in passes.trunks), None)
    if key is None or readouts not in passes.tails:
        return None
    trunk, tail = passes.trunks._held[key], passes.tails._held[readouts]
    return lambda: (trunk.replay(), tail.replay())


def products_alone(
    model: DecisionModel, tokens: int, readouts: int, stream: torch.cuda.Stream, calls: int = 3
) -> Callable[[], object]:
    """The faster of two graphs of a forward's products: cuBLAS as it comes, and as we use it.
    `calls`: replays of a time, three of which decide."""
    config = model.stack.config
    weights = projections(model.stack.weights, 2 * config.num_heads * config.head_dim)
    layers = config.num_layers
    trunk, last = weights[: 4 * (layers - 1)], weights[4 * (layers - 1) :]
    x = {k: torch.randn(tokens, k, device="cuda").bfloat16() for k in {w.shape[1] for w in weights}}
    out = torch.empty(
        tokens * max(w.shape[0] for w in weights), dtype=torch.bfloat16, device="cuda"
    )
    place = lambda rows, w: out[: rows * w.shape[0]].view(rows, w.shape[0])  # noqa: E731

    def run() -> None:
        for w in trunk:
            torch.mm(x[w.shape[1]], w.t(), out=place(tokens, w))
        _, out_proj, gate_up, down, queries, keys = last
        torch.mm(x[keys.shape[1]], keys.t(), out=place(tokens, keys))
        rows = min(readouts, tokens)
        for w in (queries, out_proj, gate_up, down):
            torch.mm(x[w.shape[1]][:rows], w.t(), out=place(rows, w))

    graphs = []
    with torch.cuda.stream(stream):
        graphs.append(_captured(run))
        with exact_blas():
            graphs.append(_captured(run))
        times = [median(replay_ms(graph.replay, calls=calls) for _ in range(3)) for graph in graphs]
    keep: tuple[Tensor, ...] = (out, *x.values())
    best = graphs[times.index(min(times))]
    return lambda: (best.replay(), keep)


def _captured(run: Callable[[], None]) -> torch.cuda.CUDAGraph:
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    run()
    graph.capture_end()
    graph.replay()
    return graph
