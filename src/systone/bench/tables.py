"""Figures as tables for people: the same rows for the terminal and for tables.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Table", "headline", "markdown", "tables_of"]

Json = dict[str, Any]

Columns = tuple[tuple[str, str, int], ...]  # title, figure, digits

_LATENCY: Columns = (
    ("requests", "requests", 0),
    ("failed", "failures", 0),
    ("mean", "mean_ms", 2),
    ("P50", "p50_ms", 2),
    ("P95", "p95_ms", 2),
    ("P99", "p99_ms", 2),
    ("max", "max_ms", 2),
    ("device mean", "device_mean_ms", 2),
    ("overhead P50", "overhead_p50_ms", 3),
)
_THROUGHPUT: Columns = (
    ("requests/s", "requests_per_s", 2),
    ("decisions/s", "decisions_per_s", 1),
    ("prompts/s", "rows_per_s", 1),
    ("tokens/s", "input_tokens_per_s", 0),
    ("device busy", "device_busy_share", 4),
    ("idle", "device_idle_share", 4),
    ("P95 ms", "p95_ms", 2),
    ("peak MiB", "peak_device_mib", 0),
    ("device MiB", "device_used_mib", 0),
    ("server MiB", "server_rss_mib", 0),
)
_GROUP: Columns = (*_LATENCY[:5], _LATENCY[6], _LATENCY[8])
_NAMES = {"a": "", "b": "b ", "null": "client alone "}


@dataclass(frozen=True, slots=True)
class Table:
    """Every row has a cell per column; the first `left` columns are names."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


def tables_of(figures: Json) -> Iterator[Table]:
    """Overall, then per kind and length of the longest candidate, then comparisons."""
    levels = figures["levels"]
    for title, columns in (
        (
            "Latency, ms (overhead: wall minus the server's device time, queueing included)",
            _LATENCY,
        ),
        ("Throughput and memory", _THROUGHPUT),
    ):
        yield Table(
            title,
            ("level", *(name for name, _, _ in columns)),
            tuple((_level_name(level), *_cells(level, columns)) for level in levels),
        )
    rows = []
    for level in levels:
        if level["target"] != "null":
            beside = (_shown(level["p95_ms"], 2), _shown(_memory(level), 0))
            rows += [
                (_level_name(level), group["kind"], group["group"], *_cells(group, _GROUP), *beside)
                for group in level["groups"]
            ]
    yield Table(
        "By kind and tokens of the longest candidate, ms",
        (
            "level",
            "kind",
            "tokens",
            *(title for title, _, _ in _GROUP),
            "P95 of all",
            "device MiB",
        ),
        tuple(rows),
        left=3,
    )
    if figures["pairs"]:
        yield Table(
            "b over a, in balanced pairs of blocks (95 % interval)",
            ("level", "blocks", "with failures", "latency", "time"),
            tuple(
                (
                    pair["level"],
                    str(pair["blocks"]),
                    str(pair["blocks_with_failures"]),
                    _interval(pair["latency_b_over_a"]),
                    _interval(pair["time_b_over_a"]),
                )
                for pair in figures["pairs"]
            ),
        )


def headline(run: Json) -> list[str]:
    """What was measured on what, a fact a line."""
    workload, environment, plan = run["workload"], run["environment"], run["plan"]
    fresh = workload["varies"] and not plan["same_texts"]
    sizes = (
        f"{workload['requests']} requests, {workload['decisions']} decisions, "
        f"{workload['rows']} candidate prompts"
    )
    if workload["tokens"] is not None:
        sizes += f", {workload['tokens']} tokens ({workload['unique_tokens']} unique)"
    lines = [
        f"{workload['name']}: {sizes}",
        f"{plan['rounds']} rounds, {plan['warmups']} warm-ups a level, "
        f"{'fresh' if fresh else 'the same'} texts every round, seed {plan['seed']}",
    ]
    for name, target in run["targets"].items():
        lines.append(f"target {name}: {target['name']}{_flags(target)}")
        lines += [f"modes {model}: {_modes(modes)}" for model, modes in target["modes"].items()]
    lines.append(
        f"commit {environment['commit']}, Python {environment['python']}, "
        f"{environment['gpu'] or 'no GPU'}, driver {environment['driver'] or 'none'}, "
        f"{environment['processors']} processors"
    )
    return lines


def markdown(run: Json, figures: Json) -> str:
    """tables.md: the headline, every table, every failure."""
    parts = [f"# {run['workload']['name']}\n", *(f"- {line}" for line in headline(run))]
    for table in tables_of(figures):
        parts += [f"\n## {table.title}\n", *_lines(table)]
    answers = ", ".join(f"{name} {count}" for name, count in figures["answers"].items())
    parts.append(f"\nAnswers: {answers.replace('_', ' ')}.")
    failures = figures["failures"]
    parts.append(f"\n## Failures: {len(failures)}\n")
    parts += [
        f"- {f['target']} {f['level']} round {f['round']} {f['item']}: {_line(f['failure'])}"
        for f in failures
    ]
    return "\n".join(parts) + "\n"


def _lines(table: Table) -> Iterator[str]:
    yield _row(table.columns)
    yield _row(["---" if i < table.left else "---:" for i in range(len(table.columns))])
    for row in table.rows:
        yield _row(row)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _level_name(level: Json) -> str:
    return _NAMES[level["target"]] + str(level["level"])


def _cells(figures: Json, columns: Columns) -> list[str]:
    return [_shown(figures[name], digits) for _, name, digits in columns]


def _shown(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _memory(level: Json) -> float | None:
    peak: float | None = level["peak_device_mib"]
    used: float | None = level["device_used_mib"]
    return used if peak is None else peak


def _interval(found: Json | None) -> str:
    if found is None:
        return "-"
    return f"{found['ratio']:.4f} [{found['low']:.4f}, {found['high']:.4f}]"


def _flags(target: Json) -> str:
    flags = target.get("flags") or []
    return f" ({' '.join(flags)})" if flags else ""


def _modes(modes: Json) -> str:
    return ", ".join(f"{k} {v}" for k, v in modes.items() if not isinstance(v, dict | list))


def _line(text: str) -> str:
    return " ".join(text.split())
