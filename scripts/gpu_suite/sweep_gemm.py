"""Times candidate tiles of the canonical product beside cuBLAS, for a GPU without settled ones.

Prints the best tiles of every (M, N, K), of the gated product beside product and activation in two
launches, and last what a tile costs: the figures of `kernels/gemm/tiles.py`. All of it goes to
$OUT/sweep_gemm.json. Tiles whose bits differ fail the run.
    python3 -m scripts.gpu_suite.sweep_gemm [--layouts 9b 27b] [--rows 64 128 ...] [--keep 24]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch

from scripts.gpu_suite.products import GATED, SHAPES, measure
from scripts.gpu_suite.sweep_tiles import Point, chosen, label, tiles
from scripts.gpu_suite.timing import machine
from systone.kernels import aot
from systone.kernels.config import select, table_of
from systone.kernels.gemm import gated
from systone.kernels.gemm import triton as gemm
from systone.kernels.gemm.tiles import GemmTile

ROWS = (64, 128, 256, 512, 1024, 2048, 4096)


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


def show(row: dict[str, Any], most: int = 4) -> str:
    peers = {name: row["ms"][name] for name in ("default", "exact", "table") if name in row["ms"]}
    tried = sorted((v, k) for k, v in row["ms"].items() if k not in peers)
    floor = min(row["ms"]["default"], row["ms"]["exact"])
    best = "  ".join(f"{k} {1000 * v:.1f} ({floor / v:.3f})" for v, k in tried[:most])
    said = "  ".join(f"{k} {1000 * v:.1f} ({floor / v:.3f})" for k, v in peers.items())
    return f"{row['op']} {row['m']}x{row['n']}x{row['k']}  {said} | {best}  wrong {row['wrong']}"


def costs(
    rows: list[dict[str, Any]], tile: GemmTile, fused: bool, processors: int
) -> list[float] | None:
    """Least, lower third and median of the microseconds a multiprocessor took for one tile and
    1024 inputs, where there are three measurements at 256 rows and more."""
    found = []
    for row in rows:
        taken = row["ms"].get(label(tile))
        if taken is None or row["m"] < 256 or (row["op"] == "gated") != fused:
            continue
        rounds = tile.rounds(row["m"], row["n"] // 2 if fused else row["n"], processors)
        found.append(1000 * taken / (rounds * row["k"] / 1024))
    found.sort()
    if len(found) < 3:
        return None
    return [round(v, 2) for v in (found[0], found[len(found) // 3], median(found))]


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
    table = select(capability)
    every = {fused: tiles(table, fused) for fused in (False, True)}
    points: list[Point] = []
    for name in args.layouts:
        points += [(m, n, k, False) for n, k in SHAPES[name].values() for m in args.rows]
        points += [(m, *SHAPES[name][GATED], True) for m in args.rows]
    plan = [(p, chosen(every[p[3]], table, p, args.processors, args.keep)) for p in points]
    jobs = list({(capability, tile, point[3]): None for point, picked in plan for tile in picked})
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 15), get_context("fork")) as pool:
        failed = [text for text in pool.map(compile_one, jobs) if text]
    print(f"{len(jobs)} kernels, {time.perf_counter() - began:.1f} s", *failed, flush=True)
    broken = {text.split(":")[0] for text in failed}
    _, processors = table_of(torch.device("cuda"))
    rows: list[dict[str, Any]] = []
    report: dict[str, Any] = {**machine(), "rows": rows}
    target = Path(os.environ.get("OUT", ".")) / "sweep_gemm.json"
    for point, picked in plan:
        rows.append(measure(point, [t for t in picked if str(t) not in broken], processors))
        print(f"{time.perf_counter() - began:5.1f}", show(rows[-1]), flush=True)
        target.write_text(json.dumps(report))
    plain = {(replace(tile, group=8), fused): None for _, tile, fused in jobs}
    report["costs"] = {
        f"{'gated ' if fused else ''}{label(tile)}": found
        for tile, fused in plain
        if (found := costs(rows, tile, fused, processors)) is not None
    }
    print(*(f"{k}: {v}" for k, v in report["costs"].items()), sep="\n")
    target.write_text(json.dumps(report))
    raise SystemExit(bool(failed) or any(row["wrong"] for row in rows))


if __name__ == "__main__":
    main()
