"""Recomputes figures from raw records and checks every hash; says what differs.

A path is a run's folder, or evidence: several runs and the summary beside their folder.

Every figure stored must come out again. A later version may compute more of them, so that an older
folder stays green; tables.md and plots are held by their hashes alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from systone.bench import evidence
from systone.bench.figures import figures_of
from systone.bench.folder import MANIFEST, dump, manifest_bytes
from systone.bench.items import Item
from systone.bench.plan import Level, Plan
from systone.bench.records import Record, from_lines
from systone.errors import ConfigError

__all__ = ["Audit", "audit"]

_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Audit:
    """`differences`: one line each; none: everything is what its run wrote."""

    requests: int
    figures: int
    differences: tuple[str, ...]


def audit(path: Path) -> Audit:
    """Raises ConfigError if the folder is neither a run's nor evidence."""
    if evidence.is_evidence(path):
        return _audit_evidence(evidence.folder_of(path))
    found = _audit_run(path)
    return replace(found, differences=_shortened(found.differences))


def _audit_evidence(folder: Path) -> Audit:
    """Every run in it, its manifest, and the summary, byte for byte."""
    differences = list(_hashes(folder))
    summary = evidence.summary_path(folder)
    requests = figures = 0
    for place in sorted(path.parent for path in folder.glob(f"*/{MANIFEST}")):
        found = _audit_run(place)
        requests, figures = requests + found.requests, figures + found.figures
        differences += [f"{place.name}: {line}" for line in found.differences]
    try:
        computed, stored = evidence.summary_of(folder), summary.read_bytes()
        figures += sum(1 for _ in _leaves(computed))
        if stored != dump(computed):
            differences += list(_compare(summary.name, json.loads(stored), computed)) or [
                f"{summary.name}: not in the form it was written in"
            ]
    except (OSError, ValueError, KeyError, TypeError, ConfigError) as error:
        differences.append(f"{summary.name} can't be recomputed: {type(error).__name__}: {error}")
    return Audit(requests, figures, _shortened(differences))


def _audit_run(path: Path) -> Audit:
    if not (path / MANIFEST).is_file():
        raise ConfigError(f"{path}: no {MANIFEST}; not a folder written by systone bench")
    differences = list(_hashes(path))
    requests = figures = 0
    try:
        run, items, records, stored = _read(path)
        recomputed = figures_of(records, items, run["samples"], run["plan"]["seed"])
        requests, figures = len(records), sum(1 for _ in _leaves(stored))
        differences += _compare("figures", stored, recomputed)
        differences += _unplanned(run, items, records)
    except (OSError, ValueError, KeyError, TypeError, ConfigError) as error:
        differences.append(f"figures can't be recomputed: {type(error).__name__}: {error}")
    return Audit(requests, figures, tuple(differences))


def _hashes(path: Path) -> Iterator[str]:
    """Files that are not what the manifest says, and a manifest that isn't this folder's."""
    if not (path / MANIFEST).is_file():
        yield f"{MANIFEST}: missing"
        return
    stored, actual = (path / MANIFEST).read_bytes(), manifest_bytes(path)
    if stored == actual:
        return
    try:
        named = dict(json.loads(stored)["files"])
    except (ValueError, KeyError, TypeError):
        yield f"{MANIFEST}: not readable"
        return
    found = json.loads(actual)["files"]
    lines = []
    for name in sorted({*named, *found}):
        if name not in found:
            lines.append(f"{name}: missing")
        elif name not in named:
            lines.append(f"{name}: not in the manifest")
        elif named[name] != found[name]:
            lines.append(f"{name}: SHA-256 is {found[name]}, the manifest says {named[name]}")
    yield from lines or [f"{MANIFEST}: changed, though it names the right hashes"]


def _read(path: Path) -> tuple[dict[str, Any], list[Item], list[Record], Any]:
    run = json.loads((path / "run.json").read_bytes())
    items = [Item(**item) for item in json.loads((path / "items.json").read_bytes())]
    records = from_lines((path / "records.jsonl.xz").read_bytes())
    stored = json.loads((path / "figures.json").read_bytes())
    for name, value in (("run.json", run), ("figures.json", stored)):
        if (path / name).read_bytes() != dump(value):
            raise ValueError(f"{name} is not in the form it was written in")
    return run, items, records, stored


def _unplanned(run: dict[str, Any], items: list[Item], records: list[Record]) -> Iterator[str]:
    """Requests that were planned and have no record, or were not and have one."""
    given = dict(run["plan"])
    given["levels"] = tuple(Level.parse(key) for key in given["levels"])
    plan = Plan(**{**given, "targets": tuple(given["targets"])})
    wanted: Counter[tuple[object, ...]] = Counter(
        (b.target, b.level.key, b.round, b.part, place, b.variant, items[index].key)
        for b in plan.blocks()
        for place, index in enumerate(b.items)
    )
    found: Counter[tuple[object, ...]] = Counter(
        (r.target, r.level, r.round, r.part, r.place, r.variant, r.item)
        for r in records
        if r.target != "null"
    )
    for key in wanted - found:
        yield f"records: none for {key}"
    for key in found - wanted:
        yield f"records: one too many for {key}"


def _compare(where: str, stored: Any, found: Any) -> Iterator[str]:
    if isinstance(stored, dict) and isinstance(found, dict) and stored.keys() <= found.keys():
        for name in stored:
            yield from _compare(f"{where}.{name}", stored[name], found[name])
    elif isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        for index, (one, other) in enumerate(zip(stored, found, strict=True)):
            yield from _compare(f"{where}[{index}]", one, other)
    elif stored != found or type(stored) is not type(found):
        yield f"{where}: stored {_brief(stored)}, recomputed {_brief(found)}"


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _shortened(lines: Sequence[str]) -> tuple[str, ...]:
    more = len(lines) - _MOST_SHOWN
    return tuple(lines) if more <= 0 else (*lines[:_MOST_SHOWN], f"and {more} more differences")
