"""Tiles of matrix products and which of them a shape gets: a fixed table and a rule, no tuning.

Knows no kernel and no device. Tiles don't change a bit. M rows, K inputs, N outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

# Beyond so many rows more row tiles share a weight tile: 1 to 2 % less time on an H200.
_MANY_ROWS, _WIDE_GROUP = 2048, 16
# The gated product spares the activation's own launch and its 6 bytes an element, at K = 4096 to
# 5120 a twentieth of the product; the library takes 4 % more than full rounds and 5 % more than
# reading the weight.
_SPARED = 1.13
_HIDDEN = 0.95  # of the time to read the weight: what rounds may take to hide behind it


@dataclass(frozen=True, slots=True)
class GemmTile:
    """rows x (columns + rest) outputs, `depth` inputs a step.

    `cost`: microseconds a multiprocessor takes for one tile and 1024 inputs, all of them busy.
    With tensor-memory copies only: `rest` widens a tile to no power of two, `persistent` lets one
    program a multiprocessor walk all tiles (no `rest` then), `halves` stores in two steps. `group`:
    row tiles that share a weight tile while they run. Of the gated product: columns of a half."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    cost: float
    rest: int = 0
    persistent: bool = True
    halves: bool = False
    group: int = 8

    def rounds(self, rows: int, outputs: int, processors: int) -> int:
        """Tiles of the busiest multiprocessor."""
        tiles = ceil(rows / self.rows) * ceil(outputs / (self.columns + self.rest))
        return ceil(tiles / processors)


@dataclass(frozen=True, slots=True)
class Rates:
    """What a device does at best: microseconds for 128 x 256 outputs and 1024 inputs on one
    multiprocessor; bytes a microsecond from memory."""

    block_us: float
    bytes_per_us: float


def quickest(tiles: Sequence[GemmTile], rows: int, outputs: int, processors: int) -> GemmTile:
    """The tile whose rounds cost least."""
    best = min(tiles, key=lambda t: (t.rounds(rows, outputs, processors) * t.cost, t.cost))
    return replace(best, group=_WIDE_GROUP) if rows > _MANY_ROWS else best


def quickest_gated(
    tiles: Sequence[GemmTile], rates: Rates, rows: int, outputs: int, processors: int
) -> GemmTile | None:
    """The tile of the gated product [rows, outputs], None where its rounds are so uneven that the
    product and the activation take less one after the other."""
    if not tiles:
        return None
    best = quickest(tiles, rows, outputs, processors)
    full = rows * 2 * outputs / (128 * 256 * processors) * rates.block_us
    weight = 2 * outputs * 1024 * 2 / rates.bytes_per_us
    spent = best.rounds(rows, outputs, processors) * best.cost
    return best if spent <= max(_SPARED * full, _HIDDEN * weight) else None


# Costs measured on an H200 (132 multiprocessors), lower third of all shapes from 256 rows on.
HOPPER = (
    GemmTile(64, 64, 128, 4, 7, 2.8, persistent=False),
    GemmTile(64, 64, 128, 4, 6, 3.3, rest=16, persistent=False),
    GemmTile(64, 64, 128, 4, 5, 3.45, rest=32, persistent=False),
    GemmTile(64, 128, 128, 4, 4, 3.5, halves=True),
    GemmTile(64, 128, 128, 4, 4, 4.7, rest=32, persistent=False),
    GemmTile(64, 128, 64, 4, 7, 5.3, rest=64, persistent=False),
    GemmTile(128, 128, 64, 4, 6, 5.95, halves=True),
    GemmTile(64, 256, 64, 4, 5, 6.1, persistent=False),
    GemmTile(64, 256, 64, 4, 4, 7.75, rest=64, persistent=False),
    GemmTile(128, 128, 64, 8, 5, 10.0, rest=64, persistent=False),
    GemmTile(128, 256, 64, 8, 4, 11.4, halves=True),
    GemmTile(128, 256, 64, 8, 4, 15.3, rest=64, persistent=False),
)
HOPPER_GATED = (
    GemmTile(64, 32, 64, 4, 4, 2.5, persistent=False),
    GemmTile(64, 64, 64, 4, 3, 3.9, persistent=False),
    GemmTile(128, 64, 64, 4, 6, 6.2),
    GemmTile(128, 128, 64, 8, 4, 11.6),
)
HOPPER_RATES = Rates(block_us=11.4, bytes_per_us=3.75e6)

# Not measured: relative costs as on SM 9.0.
AMPERE = (
    GemmTile(64, 64, 64, 4, 4, 3.0),
    GemmTile(64, 128, 64, 4, 4, 4.0),
    GemmTile(128, 128, 64, 8, 3, 6.5),
)
SMALL_SHARED = (
    GemmTile(64, 64, 64, 4, 3, 3.0),
    GemmTile(64, 128, 64, 4, 3, 4.0),
    GemmTile(128, 128, 64, 8, 2, 6.5),
)
BLACKWELL = (
    GemmTile(64, 64, 128, 4, 5, 3.0),
    GemmTile(64, 128, 128, 4, 4, 4.0),
    GemmTile(128, 128, 64, 8, 4, 6.5),
    GemmTile(128, 256, 64, 8, 3, 12.0),
)
