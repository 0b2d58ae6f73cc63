"""A summary of evidence as Markdown tables, for documents and terminals. Computes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["markdown"]

Json = dict[str, Any]
# heading, field, decimals (None: as it is)
Columns = tuple[tuple[str, str, int | None], ...]

_ASKED: Columns = (
    ("in flight", "concurrency", None),
    ("requests", "requests", None),
    ("failed", "failures", None),
    ("mean ms", "mean_ms", 2),
    ("P50", "p50_ms", 2),
    ("P95", "p95_ms", 2),
    ("requests/s", "rps", 1),
)
_WORKLOAD: Columns = (
    ("workload", "name", None),
    ("model", "model", None),
    ("sharing", "sharing", None),
    *_ASKED,
    ("decisions/s", "decisions_per_s", 1),
    ("tokens/s", "tokens_per_s", 0),
    ("over floor", "ratio", 3),
    ("TFLOP/s", "tflops", 0),
    ("GB/s", "gbytes_s", 0),
    ("idle", "gpu_idle_share", 4),
    ("overhead P50", "overhead_p50_ms", 3),
    ("peak MiB", "peak_mem_mib", 0),
)
_PEERS: Columns = (
    ("peer", "name", None),
    ("model", "model", None),
    *_ASKED,
    ("our P50", "our_p50_ms", 2),
    ("slower at P50", "slower_at_p50", 2),
)
_SOAK: Columns = (
    ("soak", "name", None),
    *_ASKED,
    ("compared", "compared_with_serial", None),
    ("different", "different_from_serial", None),
    ("device growth MiB", "device_growth_mib", 1),
    ("server growth MiB", "server_growth_mib", 1),
)


def markdown(summary: Json) -> str:
    """Every row of a summary, its ceilings, and what was not run."""
    parts = [f"Commit {summary['commit']}, {summary['device']}."]
    if summary["ceilings"]:
        ceilings = ", ".join(f"{name} {value}" for name, value in summary["ceilings"].items())
        parts.append(f"Ceilings of the same session: {ceilings}.")
    for name, columns in (("workload", _WORKLOAD), ("peers", _PEERS), ("soak", _SOAK)):
        if summary[name]:
            parts.append("\n".join(_table(summary[name], columns)))
    parts += [f"Not run: {one['part']} ({one['reason']})." for one in summary["not_run"]]
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Json], columns: Columns) -> list[str]:
    head = [heading for heading, _, _ in columns]
    lines = [head, ["---"] * len(head)]
    lines += [[_shown(row[field], decimals) for _, field, decimals in columns] for row in rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _shown(value: Any, decimals: int | None) -> str:
    if value is None:
        return "-"
    return str(value) if decimals is None else f"{value:.{decimals}f}"
