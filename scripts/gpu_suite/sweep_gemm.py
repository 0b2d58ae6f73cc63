"""Times candidate tiles of the canonical product beside cuBLAS, for a GPU without settled ones.

Prints the best tiles of every (M, N, K), and of the gated product beside product and activation in
two launches; all figures go to $OUT/sweep_gemm.json. Tiles whose bits differ fail the run.
    python3 -m scripts.gpu_suite.sweep_gemm [--layouts 9b 27b] [--rows 64 128 ...] [--keep 24]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, replace
from itertools import product
from math import ceil
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from scripts.gpu_suite.timing import machine
from systone.kernels import aot
from systone.kernels.config import GemmTile, KernelConfig, select, table_of
from systone.kernels.gemm import cublaslt, gated
from systone.kernels.gemm import triton as gemm
from systone.kernels.swiglu import triton as swiglu

SHAPES = {
    "9b": ((12352, 4096), (10240, 4096), (4096, 4096), (24576, 4096), (4096, 12288)),
    "27b": ((16480, 5120), (14336, 5120), (5120, 6144), (34816, 5120), (5120, 17408)),
}
GATED = {"9b": (24576, 4096), "27b": (34816, 5120)}
ROWS = (64, 128, 256, 512, 1024, 2048, 4096)
ROUNDS = 5
WIDTHS = ((32, 0), (32, 16), (64, 0), (64, 16), (64, 32), (128, 0), (128, 16), (128, 32),
          (128, 64), (256, 0))  # fmt: skip
# programs a multiprocessor, persistent, stored in halves
FORMS = ((1, False, False), (2, False, False), (3, False, False), (1, True, False), (1, True, True))

Call = Callable[[], object]
Point = tuple[int, int, int, bool]  # M, N, K, is it the gated product


def tiles(config: KernelConfig, fused: bool) -> list[GemmTile]:
    """Every tile that fits: one, two or three programs a multiprocessor by its stages. `fused`:
    of the gated product, whose columns count twice in all but what is stored."""
    room, times_two = config.shared_kib * 1024, 2 if fused else 1
    found = {}
    for rows, (columns, rest), depth in product((64, 128, 256), WIDTHS, (64, 128, 256)):
        width = (columns + rest) * times_two
        if (fused and rest) or rows * width > 256 * 192 or (depth == 256 and rows * width > 6144):
            continue
        warps = 4 if rows * width <= 128 * 160 else 8
        stored = rows * (columns + rest) * 2
        for programs, persistent, halves in FORMS:
            if (persistent and rest) or (halves and (fused or columns < 128)):
                continue
            kept = stored // 2 if halves else stored
            left = room // programs - 2048 - (kept if persistent else 0)
            stages = min(left // ((rows + width) * depth * 2), 8)
            if stages >= (2 if depth >= 128 else 3) and stored < room // programs:
                shape = (rows, columns, depth, warps, stages, rest, persistent, halves)
                found[GemmTile(None, *shape)] = None
    return list(found)


def chosen(every: list[GemmTile], point: Point, processors: int, keep: int) -> list[GemmTile]:
    """The `keep` best by how evenly tiles fill the multiprocessors and how much they reuse."""
    m, n, _, fused = point

    def score(tile: GemmTile) -> float:
        width = (tile.columns + tile.rest) * (2 if fused else 1)
        count = ceil(m / tile.rows) * ceil(n / width)
        even = m * n / (ceil(count / processors) * processors * tile.rows * width)
        reuse = tile.rows * width / (tile.rows + width)
        return even * reuse / (reuse + (4 if m <= 128 else 16))

    best = sorted(every, key=score, reverse=True)[:keep]
    if m >= 1024:
        best += [replace(tile, group=16) for tile in best[: keep // 2]]
    return best


def compile_one(job: tuple[tuple[int, int], GemmTile, bool]) -> str | None:
    """Fills Triton's cache from another process; says what failed."""
    capability, tile, fused = job
    x, weight = torch.empty(64, 64).bfloat16(), torch.empty(64, 64).bfloat16()

    def launch() -> None:
        if fused:
            gated.gated_with(x, weight, None, tile, 132)
        else:
            descriptors = select(capability).descriptors
            gemm.linear_with(x, weight, None, tile, 132, descriptors=descriptors)

    try:
        aot.compile_launches(capability, launch)
    except Exception as error:  # reported and left out by the caller
        return f"{tile}: {error!r:.200}"
    return None


def times(calls: dict[str, Call], inner: int) -> dict[str, float]:
    """Median milliseconds of each call from graphs replayed in turn; a call makes `inner` runs."""
    graphs = {}
    for name, call in calls.items():
        call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        graph.replay()
        graphs[name] = graph
    seen: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            seen[name].append(begin.elapsed_time(end) / inner)
    return {name: median(values) for name, values in seen.items()}


def label(tile: GemmTile) -> str:
    return ",".join(str(int(value)) for value in astuple(tile)[1:])


class Data:
    """One (M, N, K): weights enough to miss the cache, and its calls."""

    def __init__(self, m: int, n: int, k: int, device: torch.device) -> None:
        size = 2 * n * k
        self.weights = [
            (torch.randn(n, k, device=device, dtype=torch.bfloat16) * 0.02)
            for _ in range(max(2, ceil(160e6 / size)))
        ]
        self.x = torch.randn(m, k, device=device, dtype=torch.bfloat16)
        self.turns = 2 if m <= 512 else 1
        self.inner = self.turns * len(self.weights)

    def each(self, one: Callable[[Tensor], object]) -> Call:
        return lambda: [one(w) for _ in range(self.turns) for w in self.weights]


def measure(
    m: int, n: int, k: int, candidates: list[GemmTile], processors: int, fused: bool
) -> dict[str, Any]:
    """Milliseconds of every candidate and of the peers, and the candidates whose bits differ."""
    point = Data(m, n, k, torch.device("cuda"))
    x, first = point.x, point.weights[0]
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    half = torch.empty(m, n // 2, dtype=x.dtype, device=x.device)

    def run(tile: GemmTile, weight: Tensor) -> Tensor:
        if fused:
            return gated.gated_with(x, weight, half, tile, processors)
        return gemm.linear_with(x, weight, out, tile, processors, descriptors=True)

    def library(weight: Tensor) -> Tensor:
        made = cublaslt.linear(x, weight, out=out)
        return swiglu.swiglu(made, out=half) if fused else made

    calls: dict[str, Call] = {"default": point.each(library)}
    found = times(calls, point.inner)
    with cublaslt.exact_blas():
        truth = library(first).clone()
        calls = {"exact": point.each(library)}
        calls |= {label(t): point.each(lambda w, t=t: run(t, w)) for t in candidates}
        if not fused:
            calls["table"] = point.each(lambda w: gemm.linear(x, w, out=out))
        found |= times(calls, point.inner)
    wrong = [label(t) for t in candidates if not torch.equal(run(t, first), truth)]
    return {"op": "gated" if fused else "gemm", "m": m, "n": n, "k": k, "ms": found, "wrong": wrong}


def show(row: dict[str, Any], most: int = 4) -> str:
    peers = {name: row["ms"][name] for name in ("default", "exact", "table") if name in row["ms"]}
    tried = sorted((v, k) for k, v in row["ms"].items() if k not in peers)
    floor = min(row["ms"]["default"], row["ms"]["exact"])
    best = "  ".join(f"{k} {1000 * v:.1f} ({floor / v:.3f})" for v, k in tried[:most])
    said = "  ".join(f"{k} {1000 * v:.1f}" for k, v in peers.items())
    return f"{row['op']} {row['m']}x{row['n']}x{row['k']}  {said} | {best}  wrong {row['wrong']}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layouts", nargs="+", choices=sorted(SHAPES), default=["9b"])
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS)
    parser.add_argument("--keep", type=int, default=24)
    parser.add_argument("--capability", default="9.0")
    parser.add_argument("--processors", type=int, default=132)
    args = parser.parse_args()
    began = time.perf_counter()
    capability = tuple(map(int, args.capability.split(".")))
    every = {fused: tiles(select(capability), fused) for fused in (False, True)}
    points = []
    for name in args.layouts:
        fused = [(m, *GATED[name], True) for m in args.rows]
        points += [(m, n, k, False) for n, k in SHAPES[name] for m in args.rows] + fused
    plan = [(point, chosen(every[point[3]], point, args.processors, args.keep)) for point in points]
    jobs = list({(capability, tile, point[3]): None for point, picked in plan for tile in picked})
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 15), get_context("fork")) as pool:
        failed = [text for text in pool.map(compile_one, jobs) if text]
    print(
        f"{len(jobs)} kernels, {time.perf_counter() - began:.1f} s", *failed, sep="\n", flush=True
    )
    broken = {text.split(":")[0] for text in failed}
    _, processors = table_of(torch.device("cuda"))
    rows: list[dict[str, Any]] = []
    report = {**machine(), "rows": rows}
    for (m, n, k, fused), picked in plan:
        good = [tile for tile in picked if str(tile) not in broken]
        rows.append(measure(m, n, k, good, processors, fused))
        print(f"{time.perf_counter() - began:5.1f}", show(rows[-1]), flush=True)
        target = Path(os.environ.get("OUT", ".")) / "sweep_gemm.json"
        target.write_text(json.dumps(report))
    raise SystemExit(bool(failed) or any(row["wrong"] for row in rows))


if __name__ == "__main__":
    main()
