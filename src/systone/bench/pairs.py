"""Two targets compared: ratios over pairs of blocks that ran back to back, with intervals."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from systone.bench.records import Record
from systone.bench.statistics import bootstrap_ratio

__all__ = ["pair_figures"]

Key = tuple[int, int]  # (round, part)


def pair_figures(records: Sequence[Record], seed: int) -> list[dict[str, Any]]:
    """Per level, b over a: mean latency and time per block, each with its 95 % interval.

    Blocks with a failure are left out of the ratios and counted in `blocks_with_failures`.
    """
    levels: dict[str, dict[str, dict[Key, list[Record]]]] = {}
    for record in records:
        if record.target in ("a", "b"):
            targets = levels.setdefault(
                record.level, {"a": defaultdict(list), "b": defaultdict(list)}
            )
            targets[record.target][record.round, record.part].append(record)
    return [
        _level(level, targets, seed)
        for level, targets in levels.items()
        if targets["a"] and targets["b"]
    ]


def _level(level: str, targets: dict[str, dict[Key, list[Record]]], seed: int) -> dict[str, Any]:
    a, b = targets["a"], targets["b"]
    both = sorted(a.keys() & b.keys())
    sound = [key for key in both if not any(r.failure for r in (*a[key], *b[key]))]
    return {
        "level": level,
        "blocks": len(both),
        "blocks_with_failures": len(both) - len(sound),
        "latency_b_over_a": _ratio(
            [_latency(b[k]) for k in sound], [_latency(a[k]) for k in sound], seed
        ),
        "time_b_over_a": _ratio([_span(b[k]) for k in sound], [_span(a[k]) for k in sound], seed),
    }


def _latency(records: Sequence[Record]) -> float:
    return math.fsum(record.wall_ns for record in records)


def _span(records: Sequence[Record]) -> float:
    begins = [r.begin_ns if r.due_ns is None else r.due_ns for r in records]
    return float(max(r.end_ns for r in records) - min(begins))


def _ratio(above: list[float], below: list[float], seed: int) -> dict[str, float] | None:
    found = bootstrap_ratio(above, below, seed)
    if found is None:
        return None
    ratio, low, high = (round(value, 6) for value in found)
    return {"ratio": ratio, "low": low, "high": high}
