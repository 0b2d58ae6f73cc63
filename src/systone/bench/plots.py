"""Plots of runs as files: throughput against concurrency, and latency distributions.

Drawn with matplotlib, which only the `bench` extra brings; without it a run has tables only and
`systone bench plot` draws later, from the folder, anywhere.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from systone.bench.plan import Level
from systone.bench.records import Record, from_lines
from systone.errors import ConfigError

__all__ = ["Series", "available", "draw", "draw_run", "read_series"]

# Colours told apart also without colour vision (Okabe and Ito).
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_LINES = ("-", "--", "-.", ":")
_SIZE = (8.0, 5.0)
_DPI = 150
_LEGEND_COLUMNS, _LEGEND_CHARACTERS = 4, 110


class Series:
    """One target of one run under a name of its own."""

    def __init__(self, name: str, target: str, records: Sequence[Record], figures: Any) -> None:
        self.name = name
        self.levels = [level for level in figures["levels"] if level["target"] == target]
        self.walls_ms: dict[str, list[float]] = {level["level"]: [] for level in self.levels}
        for record in records:
            if record.target == target and not record.warmup and record.failure is None:
                self.walls_ms[record.level].append(record.wall_ns / 1e6)


def available() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def draw_run(
    out: Path, records: Sequence[Record], figures: dict[str, Any], run: dict[str, Any]
) -> tuple[str, ...]:
    """Both plots of one run; the names of the files."""
    series = [
        Series(target["name"], name, records, figures) for name, target in run["targets"].items()
    ]
    return draw(out, series, run["workload"]["name"])


def read_series(folders: Sequence[Path]) -> tuple[list[Series], str]:
    """The targets of several runs, named by their folders, and the workload they share. Raises
    ConfigError."""
    series, workloads = [], []
    for folder in folders:
        try:
            run = json.loads((folder / "run.json").read_bytes())
            figures = json.loads((folder / "figures.json").read_bytes())
            records = from_lines((folder / "records.jsonl.xz").read_bytes())
            workloads.append(str(run["workload"]["name"]))
            for name, target in run["targets"].items():
                title = target["name"]
                if len(folders) > 1:
                    alone = len(run["targets"]) == 1
                    title = folder.name if alone else f"{folder.name}: {title}"
                series.append(Series(title, name, records, figures))
        except (OSError, ValueError, KeyError) as error:
            raise ConfigError(f"{folder}: not a folder of systone bench ({error})") from None
    return series, ", ".join(dict.fromkeys(workloads))


def draw(out: Path, series: Sequence[Series], title: str) -> tuple[str, ...]:
    """`throughput.png` (where there is a closed loop) and `latency.png` under `out`; neither where
    nothing was answered."""
    if not any(walls for one in series for walls in one.walls_ms.values()):
        return ()
    drawn = []
    if any(level["level"].startswith("c") for one in series for level in one.levels):
        _throughput(out / "throughput.png", series, title)
        drawn.append("throughput.png")
    _latency(out / "latency.png", series, title)
    return (*drawn, "latency.png")


def _throughput(path: Path, series: Sequence[Series], title: str) -> None:
    figure, axes = _canvas(f"{title}: throughput in a closed loop")
    ticks: set[float] = set()
    top = 0.0
    for index, one in enumerate(series):
        points = [
            (Level.parse(level["level"]).amount, level["requests_per_s"] or 0.0)
            for level in one.levels
            if level["level"].startswith("c")
        ]
        points.sort()
        ticks |= {x for x, _ in points}
        top = max([top, *(y for _, y in points)])
        style = {"color": _COLOURS[index % len(_COLOURS)], "marker": "o", "label": one.name}
        axes.plot([x for x, _ in points], [y for _, y in points], **style)
        for x, y in points:
            axes.annotate(f"{y:.3g}", (x, y), (0, 7), textcoords="offset points", ha="center")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(ticks), [f"{x:g}" for x in sorted(ticks)])
    axes.minorticks_off()
    axes.set_xlabel("requests in flight")
    axes.set_ylabel("requests per second")
    axes.set_ylim(0, 1.15 * top or 1.0)
    _legend(figure, axes)
    figure.savefig(path, dpi=_DPI)


def _latency(path: Path, series: Sequence[Series], title: str) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    figure, axes = _canvas(f"{title}: latency, POST to validated body")
    levels = list(dict.fromkeys(level for one in series for level in one.walls_ms))
    for index, one in enumerate(series):
        for level, walls in one.walls_ms.items():
            if walls:
                ordered = [min(walls), *sorted(walls)]
                shares = [rank / len(walls) for rank in range(len(ordered))]
                # a level has one colour, a series one line style
                style = {
                    "color": _COLOURS[levels.index(level) % len(_COLOURS)],
                    "linestyle": _LINES[index % len(_LINES)],
                }
                name = level if len(series) == 1 else f"{one.name} {level}"
                axes.step(ordered, shares, where="post", label=name, **style)
    for share, name in ((0.5, "P50"), (0.95, "P95")):
        axes.axhline(share, color="0.75", linewidth=0.8, zorder=0)
        axes.annotate(
            name,
            (1.0, share),
            (4, -3),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            color="0.4",
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("milliseconds")
    axes.set_ylabel("share of requests answered within")
    axes.set_ylim(0, 1.02)
    _legend(figure, axes)
    figure.savefig(path, dpi=_DPI)


def _legend(figure: Any, axes: Any) -> None:
    """Below the axes, in as many columns as the names leave room for."""
    names = axes.get_legend_handles_labels()[1]
    room = _LEGEND_CHARACTERS // (8 + max(map(len, names)))
    columns = max(1, min(_LEGEND_COLUMNS, room))
    figure.legend(loc="outside lower center", ncols=columns, frameon=False)


def _canvas(title: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # no pyplot: nothing global, no display

    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.grid(visible=True, color="0.92")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes
