"""Every figure of a run, computed from its raw records, its items and its samples alone.

Called once when a run ends and again by the audit: the two must agree to the last digit. Figures
are milliseconds and per second; a figure that can't be known is None, never zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from systone.bench.items import GROUPS, UNKNOWN, Item
from systone.bench.pairs import pair_figures
from systone.bench.plan import WARMUP_ROUND
from systone.bench.records import Record
from systone.bench.statistics import mean, nearest_rank

__all__ = ["figures_of"]

Json = dict[str, Any]
_KINDS = ("choice", "noul", "score", "mixed")
_GROUP_NAMES = (*(f"{low}-{high}" for low, high in GROUPS), f"{GROUPS[-1][1] + 1}+", UNKNOWN)


def figures_of(
    records: Sequence[Record], items: Sequence[Item], samples: Sequence[Json], seed: int
) -> Json:
    """`samples`: what the server said of itself around each block, in order."""
    by_key = {item.key: item for item in items}
    measured = [record for record in records if not record.warmup]
    return {
        "levels": [
            _level(target, level, mine, by_key, samples)
            for (target, level), mine in _by_level(measured).items()
        ],
        "pairs": pair_figures(measured, seed),
        "answers": _answers(records),
        "failures": [_failure(record) for record in records if record.failure is not None],
    }


def _by_level(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    levels = defaultdict(list)
    for record in records:
        levels[record.target, record.level].append(record)
    return dict(levels)


def _level(
    target: str,
    level: str,
    records: Sequence[Record],
    items: Mapping[str, Item],
    samples: Sequence[Json],
) -> Json:
    good = [record for record in records if record.failure is None]
    span_s = sum(spans_s(records).values())
    mine = [s for s in samples if s["target"] == target and s["level"] == level]
    return {
        "target": target,
        "level": level,
        **_latency(records),
        "span_s": _rounded(span_s),
        "requests_per_s": _per_s(len(good), span_s),
        "rounds_requests_per_s": _rounds(records),
        "decisions_per_s": _per_s(sum(items[r.item].questions for r in good), span_s),
        "rows_per_s": _per_s(sum(items[r.item].rows for r in good), span_s),
        "input_tokens_per_s": _per_s(sum(r.input_tokens or 0 for r in good), span_s),
        "max_late_ms": _late_ms(records),
        "steps_p50_ms": _steps(good),
        **_server(mine, span_s),
        "groups": _groups(records, items),
    }


def _latency(records: Sequence[Record]) -> Json:
    good = [record for record in records if record.failure is None]
    walls = [record.wall_ns / 1e6 for record in good]
    known = [(wall, r.device_ms) for wall, r in zip(walls, good, strict=True)]
    device = [took for _, took in known if took is not None]
    beside = [wall - took for wall, took in known if took is not None]
    return {
        "requests": len(records),
        "failures": len(records) - len(good),
        "mean_ms": _rounded(mean(walls)),
        "p50_ms": _rounded(nearest_rank(walls, 50)),
        "p95_ms": _rounded(nearest_rank(walls, 95)),
        "p99_ms": _rounded(nearest_rank(walls, 99)),
        "max_ms": _rounded(max(walls, default=None)),
        "device_mean_ms": _rounded(mean(device)),
        "overhead_mean_ms": _rounded(mean(beside)),
        "overhead_p50_ms": _rounded(nearest_rank(beside, 50)),
    }


def _steps(records: Sequence[Record]) -> Json:
    """The P50 of every step a server tells of in Server-Timing, and of what is `outside` its total:
    the network and the client."""
    steps: defaultdict[str, list[float]] = defaultdict(list)
    for record in records:
        for name, took in (record.server_ms or {}).items():
            steps[name].append(took)
            if name == "total":
                steps["outside"].append(record.wall_ns / 1e6 - took)
    return {name: _rounded(nearest_rank(took, 50)) for name, took in sorted(steps.items())}


def spans_s(records: Iterable[Record]) -> dict[tuple[int, int], float]:
    """Seconds from a block's first send (or arrival) to its last reply, by (round, part)."""
    ends: dict[tuple[int, int], tuple[int, int]] = {}
    for r in records:
        begin = r.begin_ns if r.due_ns is None else r.due_ns
        first, last = ends.get((r.round, r.part), (begin, r.end_ns))
        ends[r.round, r.part] = (min(first, begin), max(last, r.end_ns))
    return {block: (last - first) / 1e9 for block, (first, last) in ends.items()}


def _rounds(records: Sequence[Record]) -> list[float | None]:
    """Throughput of each round: how much the rounds differ."""
    spans = spans_s(records)
    rounds = sorted({r.round for r in records})
    return [
        _per_s(
            sum(r.round == number and r.failure is None for r in records),
            sum(span for (round_, _), span in spans.items() if round_ == number),
        )
        for number in rounds
    ]


def _late_ms(records: Sequence[Record]) -> float | None:
    """How late the latest request of an open loop was sent: it waited for a free connection."""
    late = [(r.begin_ns - r.due_ns) / 1e6 for r in records if r.due_ns is not None]
    return _rounded(max(late, default=None))


def _server(samples: Sequence[Json], span_s: float) -> Json:
    """What the server and its device said around the blocks of a level."""
    rounds = [s for s in samples if s["round"] != WARMUP_ROUND]
    active = _share(rounds, "device_active_s", span_s)
    return {
        "device_busy_share": _share(rounds, "device_s", span_s),
        "device_idle_share": None if active is None else _rounded(1.0 - active),
        "peak_device_mib": _largest(samples, "device_peak_bytes", 2**20),
        "device_used_mib": _largest(samples, "device_used_bytes", 2**20),
        "server_rss_mib": _largest(samples, "rss_bytes", 2**20),
        "device_growth_mib": _growth(rounds, "device_used_bytes"),
        "server_growth_mib": _growth(rounds, "rss_bytes"),
    }


def _share(rounds: Sequence[Json], name: str, span_s: float) -> float | None:
    """What a counter of seconds grew by in the rounds, over the rounds' own time."""
    grown = [
        s["after"][name] - s["before"][name]
        for s in rounds
        if s["before"][name] is not None and s["after"][name] is not None
    ]
    return _per_s(sum(grown), span_s) if grown and len(grown) == len(rounds) else None


def _largest(samples: Sequence[Json], name: str, unit: int) -> float | None:
    found = [s[at][name] for s in samples for at in ("before", "after") if s[at][name] is not None]
    return _rounded(max(found) / unit) if found else None


def _growth(rounds: Sequence[Json], name: str) -> float | None:
    """From the end of the first round to the end of the last: flat memory is about 0."""
    if not rounds or any(s["after"][name] is None for s in rounds):
        return None
    return _rounded((rounds[-1]["after"][name] - rounds[0]["after"][name]) / 2**20)


def _groups(records: Sequence[Record], items: Mapping[str, Item]) -> list[Json]:
    cells = defaultdict(list)
    for record in records:
        item = items[record.item]
        cells[item.kind, item.group].append(record)
    return [
        {"kind": kind, "group": group, **_latency(cells[kind, group])}
        for kind in _KINDS
        for group in _GROUP_NAMES
        if (kind, group) in cells
    ]


def _answers(records: Sequence[Record]) -> Json:
    """Whether equal requests had equal answers, and the answers they were to have."""
    seen: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    repeated = unexpected = compared = 0
    for record in records:
        if record.answers is None or record.target == "null":
            continue
        repeated += bool(seen[record.target, record.request])
        seen[record.target, record.request].add(record.answers)
        if record.expected is not None:
            compared += 1
            unexpected += record.answers != record.expected
    return {
        "texts": len(seen),
        "repeats": repeated,
        "texts_with_differing_answers": sum(len(answers) > 1 for answers in seen.values()),
        "compared": compared,
        "compared_and_different": unexpected,
    }


def _failure(record: Record) -> Json:
    return {
        "target": record.target,
        "level": record.level,
        "round": record.round,
        "item": record.item,
        "status": record.status,
        "failure": record.failure,
    }


def _per_s(count: float, span_s: float) -> float | None:
    return _rounded(count / span_s) if span_s > 0 else None


def _rounded(value: float | None) -> float | None:
    """To a nanosecond where the unit is a millisecond: what the clock can tell."""
    return None if value is None else round(value, 6)
