"""A bench run on a terminal: a progress bar, the tables, and one line of JSON at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

if TYPE_CHECKING:
    from systone.bench.session import Report
    from systone.bench.tables import Table

__all__ = ["print_report", "run_progress"]

_WIDTH = 140  # of tables where the output is no terminal
_NAME_CELLS = 60
_SUMMED = (
    "target",
    "level",
    "requests",
    "failures",
    "mean_ms",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "requests_per_s",
    "decisions_per_s",
    "input_tokens_per_s",
    "overhead_p50_ms",
    "device_busy_share",
    "device_idle_share",
    "peak_device_mib",
    "device_used_mib",
    "device_growth_mib",
    "server_growth_mib",
)


@contextmanager
def run_progress(total: int) -> Iterator[Callable[[str, int], None]]:
    """A bar on standard error; without a terminal, a line whenever the step changes."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("starting", total=total)
        yield lambda step, done: progress.update(
            task, description=escape(step[:_NAME_CELLS]), completed=done
        )


def print_report(report: Report, out: Path) -> int:
    """Tables, failures, and the last line; the exit status."""
    from systone.bench.plots import available
    from systone.bench.tables import headline, tables_of

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH)
    for line in headline(report.run):
        console.print(escape(line))
    for table in tables_of(report.figures):
        console.print(_rich(table))
    failures, answers = report.figures["failures"], report.figures["answers"]
    for failure in failures[:10]:
        console.print(escape(f"failed: {failure['level']} {failure['item']}: {failure['failure']}"))
    if len(failures) > 10:
        console.print(f"{len(failures) - 10} more failures are in {escape(str(out))}/tables.md")
    if not available():
        console.print("no plots: matplotlib is not installed (systone bench plot draws them later)")
    console.print(f"written to {escape(str(out))}")
    sys.stdout.write(json.dumps(_summary(report, out), ensure_ascii=False) + "\n")
    return 1 if failures or answers["compared_and_different"] else 0


def _summary(report: Report, out: Path) -> dict[str, Any]:
    run, figures = report.run, report.figures
    return {
        "workload": run["workload"]["name"],
        "targets": {name: target["name"] for name, target in run["targets"].items()},
        "commit": run["environment"]["commit"],
        "gpu": run["environment"]["gpu"],
        "driver": run["environment"]["driver"],
        "warmups": run["plan"]["warmups"],
        "rounds": run["plan"]["rounds"],
        "levels": [{name: level[name] for name in _SUMMED} for level in figures["levels"]],
        "pairs": figures["pairs"],
        "answers": figures["answers"],
        "failures": len(figures["failures"]),
        "out": str(out),
        "manifest_sha256": report.digest,
    }


def _rich(table: Table) -> RichTable:
    shown = RichTable(title=table.title, title_justify="left")
    for index, column in enumerate(table.columns):
        shown.add_column(column, justify="left" if index < table.left else "right")
    for row in table.rows:
        shown.add_row(*(escape(cell) for cell in row))
    return shown


def _lines(total: int) -> Callable[[str, int], None]:
    shown = [""]

    def show(step: str, done: int) -> None:
        if step != shown[0]:
            shown[0] = step
            sys.stderr.write(f"{done}/{total} {step}\n")
            sys.stderr.flush()

    return show
