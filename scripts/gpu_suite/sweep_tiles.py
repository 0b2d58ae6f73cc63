"""Candidate tiles of the sweep: everything that fits, and which of it is tried at a shape."""

from __future__ import annotations

from dataclasses import astuple, replace
from itertools import product
from math import ceil

from systone.kernels.config import KernelConfig
from systone.kernels.gemm.tiles import GemmTile

Point = tuple[int, int, int, bool]  # M, N, K, is it the gated product

WIDTHS = ((32, 0), (32, 16), (64, 0), (64, 16), (64, 32), (128, 0), (128, 16), (128, 32),
          (128, 64), (256, 0), (256, 16), (256, 32), (256, 64), (256, 128))  # fmt: skip
# programs a multiprocessor, persistent, stored in halves
FORMS = ((1, False, False), (2, False, False), (3, False, False), (1, True, False), (1, True, True))
# 4 warps hold 128 x 160 sums, 8 hold 128 x 384
_FOUR_WARPS, _EIGHT_WARPS, _DEEP = 128 * 160, 128 * 384, 64 * 96


def tiles(config: KernelConfig, fused: bool) -> list[GemmTile]:
    """Every tile that fits: one, two or three programs a multiprocessor by its stages. `fused`:
    of the gated product, whose columns count twice in all but what is stored."""
    room, times_two = config.shared_kib * 1024, 2 if fused else 1
    found = {}
    for rows, (columns, rest), depth in product((64, 128, 256), WIDTHS, (64, 128, 256)):
        width = (columns + rest) * times_two
        sums = rows * width
        if (fused and rest) or sums > _EIGHT_WARPS or (depth == 256 and sums > _DEEP):
            continue
        warps = 4 if sums <= _FOUR_WARPS else 8
        stored = rows * (columns + rest) * 2
        for programs, persistent, halves in FORMS:
            if (persistent and rest) or (halves and (fused or columns < 128)):
                continue
            kept = stored // 2 if halves else stored
            left = room // programs - 2048 - (kept if persistent else 0)
            stages = min(left // ((rows + width) * depth * 2), 8)
            if stages >= 3 and stored < room // programs:
                tile = GemmTile(rows, columns, depth, warps, stages, 0.0, rest, persistent, halves)
                found[tile] = None
    return list(found)


def chosen(
    every: list[GemmTile], table: KernelConfig, point: Point, processors: int, keep: int
) -> list[GemmTile]:
    """The `keep` best by how evenly tiles fill the multiprocessors and how much they reuse, and the
    table's own."""
    m, n, _, fused = point

    def score(tile: GemmTile) -> float:
        width = (tile.columns + tile.rest) * (2 if fused else 1)
        count = ceil(m / tile.rows) * ceil(n / width)
        even = m * n / (ceil(count / processors) * processors * tile.rows * width)
        reuse = tile.rows * width / (tile.rows + width)
        return even * reuse / (reuse + (4 if m <= 128 else 16))

    best = sorted(every, key=score, reverse=True)[:keep]
    own = sorted(table.gated if fused else table.gemm, key=score, reverse=True)[:4]
    best += [made for tile in own if (made := replace(tile, cost=0.0)) not in best]
    if m >= 1024:
        best += [replace(tile, group=16) for tile in best[: keep // 2]]
    return best


def label(tile: GemmTile) -> str:
    """rows,columns,depth,warps,stages,rest,persistent,halves,group"""
    values = astuple(replace(tile, cost=0.0))
    return ",".join(str(int(value)) for value in (*values[:5], *values[6:]))
