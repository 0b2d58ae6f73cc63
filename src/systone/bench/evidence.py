"""Several runs as one piece of evidence: DIR.json, every figure of it computed from DIR beside it.

DIR holds set.json (what was run on what, floors and ceilings measured in the same session), a run's
folder each, and a manifest over all of it. Roles of a run: `workload` (ours), `peer`, `serial` (the
answers that a soak is held to) and `soak`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from systone.bench.floor import Curve, Floor, floor_of
from systone.bench.folder import MANIFEST, dump, manifest_bytes
from systone.bench.items import Item
from systone.bench.plan import Level
from systone.bench.records import Record, from_lines
from systone.bench.statistics import nearest_rank
from systone.errors import ConfigError

__all__ = ["FORMAT", "SET", "folder_of", "is_evidence", "summary_of", "summary_path", "write"]

FORMAT = "systone-evidence/1"
SET = "set.json"
_ROLES = ("workload", "peer", "serial", "soak")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """One run's folder as its set names it."""

    entry: Json
    figures: Json
    items: Mapping[str, Item]
    records: Sequence[Record]

    @property
    def levels(self) -> list[Json]:
        return [level for level in self.figures["levels"] if level["target"] == "a"]

    def measured(self, level: str) -> list[Record]:
        """The valid answers of a level, without warm-ups."""
        return [
            r
            for r in self.records
            if (r.target, r.level) == ("a", level) and not r.warmup and r.failure is None
        ]


def folder_of(path: Path) -> Path:
    """The folder of runs, from itself or from its summary."""
    return path.with_suffix("") if path.suffix == ".json" else path


def summary_path(folder: Path) -> Path:
    return folder.with_name(folder.name + ".json")


def is_evidence(path: Path) -> bool:
    return (folder_of(path) / SET).is_file()


def write(path: Path) -> Path:
    """The summary and the manifest of a folder of runs. Raises ConfigError for another folder."""
    folder = folder_of(path)
    if not is_evidence(folder):
        raise ConfigError(f"{folder}: no {SET}; not a folder of evidence")
    summary_path(folder).write_bytes(dump(summary_of(folder)))
    (folder / MANIFEST).write_bytes(manifest_bytes(folder))
    return summary_path(folder)


def summary_of(folder: Path) -> Json:
    """Raises OSError, ValueError or KeyError for a folder that isn't whole."""
    described = json.loads((folder / SET).read_bytes())
    if described["format"] != FORMAT:
        raise ValueError(f"{SET} has format {described['format']!r}, not {FORMAT!r}")
    curves = {name: Curve(rows) for name, rows in described["floors"].items()}
    runs = [_read(folder, entry) for entry in described["runs"]]
    return {
        "commit": described["commit"],
        "device": described["machine"]["device"],
        "machine": described["machine"],
        "ceilings": described["ceilings"],
        "workload": [row for run in runs for row in _workload_rows(run, curves)],
        "peers": [row for run in runs for row in _peer_rows(run, runs)],
        "soak": [row for run in runs for row in _soak_rows(run)],
        "not_run": described["not_run"],
    }


def _read(folder: Path, entry: Json) -> Run:
    if entry["role"] not in _ROLES:
        raise ValueError(f"{SET}: {entry['role']!r} is no role of a run")
    place = folder / entry["folder"]
    items = [Item(**item) for item in json.loads((place / "items.json").read_bytes())]
    return Run(
        entry,
        json.loads((place / "figures.json").read_bytes()),
        {item.key: item for item in items},
        from_lines((place / "records.jsonl.xz").read_bytes()),
    )


def _workload_rows(run: Run, curves: Mapping[str, Curve]) -> Iterator[Json]:
    if run.entry["role"] != "workload":
        return
    for level in run.levels:
        yield {
            "name": run.entry["name"],
            "model": run.entry["model"],
            "sharing": run.entry["sharing"],
            **_common(level),
            **_beside_floor(run, level, curves.get(run.entry["model"])),
            "gpu_idle_share": level["device_idle_share"],
            "peak_mem_mib": level["peak_device_mib"] or level["device_used_mib"],
            "overhead_p50_ms": level["overhead_p50_ms"],
            "steps_p50_ms": level["steps_p50_ms"],
            "decisions_per_s": level["decisions_per_s"],
            "tokens_per_s": level["input_tokens_per_s"],
            "token_counts_other_than_planned": _miscounted(run, level["level"]),
            "answers": _answers(run),
        }


def _common(level: Json) -> Json:
    return {
        "concurrency": int(Level.parse(level["level"]).amount),
        "requests": level["requests"],
        "failures": level["failures"],
        "mean_ms": level["mean_ms"],
        "p50_ms": level["p50_ms"],
        "p95_ms": level["p95_ms"],
        "rps": level["requests_per_s"],
    }


def _beside_floor(run: Run, level: Json, curve: Curve | None) -> Json:
    """Time taken beside the least the products of the same requests take, one request at a time.

    Bytes are told for one in flight only: a batch reads the weights once for several requests."""
    measured_ms = level["span_s"] * 1e3
    named = {"measured_ms_total": round(measured_ms, 3)}
    total = None if curve is None else _floor(run, level["level"], curve)
    if total is None:
        return {**named, **dict.fromkeys(("floor_ms_total", "ratio", "tflops", "gbytes_s"))}
    alone = level["level"] == "c1"
    return {
        **named,
        "floor_ms_total": round(total.ms, 3),
        "ratio": round(measured_ms / total.ms, 4),
        "tflops": round(total.gflop / measured_ms, 1),
        "gbytes_s": round(total.gbytes / measured_ms * 1e3, 1) if alone else None,
    }


def _floor(run: Run, level: str, curve: Curve) -> Floor | None:
    """Of a level's valid answers; None without any, or if a length isn't known."""
    total = Floor()
    for record in run.measured(level):
        one = floor_of(run.items[record.item], run.entry["sharing"], curve)
        if one is None:
            return None
        total += one
    return total if total.ms else None


def _miscounted(run: Run, level: str) -> int | None:
    """Answers whose token count isn't the one their text was made for."""
    if any(item.tokens is None for item in run.items.values()):
        return None
    return sum(r.input_tokens != run.items[r.item].tokens for r in run.measured(level))


def _answers(run: Run) -> Json:
    """Of the whole run, all its levels: how many answers came again, and how many differed."""
    found = run.figures["answers"]
    return {
        "repeated": found["repeats"],
        "texts_with_differing_answers": found["texts_with_differing_answers"],
        "compared_with_serial": found["compared"],
        "different_from_serial": found["compared_and_different"],
    }


def _peer_rows(run: Run, runs: Sequence[Run]) -> Iterator[Json]:
    """A peer beside our own latencies, one in flight, of the very requests it was asked."""
    if run.entry["role"] != "peer":
        return
    ours = _ours(run, runs)
    for level in run.levels:
        yield {
            "name": run.entry["name"],
            "model": run.entry["model"],
            **_common(level),
            "peak_mem_mib": level["peak_device_mib"],
            "our_p50_ms": ours,
            "slower_at_p50": None if not ours else round(level["p50_ms"] / ours, 3),
        }


def _ours(peer: Run, runs: Sequence[Run]) -> float | None:
    for run in runs:
        entry = run.entry
        same = entry["role"] == "workload" and entry["sharing"] == "default"
        if same and all(entry[n] == peer.entry[n] for n in ("model", "workload")):
            walls = [r.wall_ns / 1e6 for r in run.measured("c1") if r.item in peer.items]
            return nearest_rank(walls, 50)
    return None


def _soak_rows(run: Run) -> Iterator[Json]:
    if run.entry["role"] != "soak":
        return
    for level in run.levels:
        yield {
            "name": run.entry["name"],
            "model": run.entry["model"],
            **_common(level),
            "seconds": level["span_s"],
            **_answers(run),
            "device_growth_mib": level["device_growth_mib"],
            "server_growth_mib": level["server_growth_mib"],
            "device_used_mib": level["device_used_mib"],
            "server_rss_mib": level["server_rss_mib"],
        }
