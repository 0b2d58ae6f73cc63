"""The least a workload's matrix products take on its device, from a measured curve.

A curve gives milliseconds, operations and bytes of one forward's products by token count. What a
request's own pass holds is padded as the engine pads it; more than the curve's longest pass is
several. Units: tokens, ms.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from systone.bench.items import Item
from systone.execute.buckets import row_bucket

__all__ = ["Curve", "Floor", "floor_of"]


@dataclass(frozen=True, slots=True)
class Floor:
    """Of one request, or summed over several. `gflop`: 10^9 operations; `gbytes`: 10^9 bytes."""

    ms: float = 0.0
    gflop: float = 0.0
    gbytes: float = 0.0

    def __add__(self, other: Floor) -> Floor:
        return Floor(self.ms + other.ms, self.gflop + other.gflop, self.gbytes + other.gbytes)


class Curve:
    """Between two measured token counts everything is linear."""

    def __init__(self, rows: Sequence[dict[str, float]]) -> None:
        """`rows`: {tokens, ms, tflops, gbytes_s}, ascending. Raises ValueError without any."""
        if not rows:
            raise ValueError("a floor needs a measured row")
        self._tokens = [int(row["tokens"]) for row in rows]
        # tera-operations a second times milliseconds are 10^9 operations; likewise bytes
        self._floors = [
            Floor(row["ms"], row["tflops"] * row["ms"], row["gbytes_s"] * row["ms"] / 1e3)
            for row in rows
        ]

    def at(self, tokens: int) -> Floor:
        """Of a request whose pass holds so many tokens."""
        longest = self._tokens[-1]
        whole, rest = divmod(tokens, longest)
        total = Floor()
        for _ in range(whole):
            total += self._floors[-1]
        return total + self._between(row_bucket(rest)) if rest else total

    def _between(self, tokens: int) -> Floor:
        place = bisect_left(self._tokens, tokens)
        above = self._floors[place]
        if self._tokens[place] == tokens or place == 0:
            return above
        below = self._floors[place - 1]
        low, high = self._tokens[place - 1], self._tokens[place]
        share = (tokens - low) / (high - low)
        return Floor(
            below.ms + share * (above.ms - below.ms),
            below.gflop + share * (above.gflop - below.gflop),
            below.gbytes + share * (above.gbytes - below.gbytes),
        )


def floor_of(item: Item, sharing: str, curve: Curve) -> Floor | None:
    """Of one request: what its candidates share counts once unless `sharing` is off. None: its
    lengths aren't known."""
    tokens: Any = item.tokens if sharing == "off" else item.unique
    return None if tokens is None else curve.at(tokens)
