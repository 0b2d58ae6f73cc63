#!/usr/bin/env python
"""Judge systone-mini on labelled items: a table per file, then one line of JSON.

    scripts/evaluate_mini.py evaluation/mini/dev.jsonl evaluation/mini/heldout.jsonl [MORE ...]

A file holds a question a line with its items, or a labelled request a line (`request`,
`expected`). Every item is asked in a request of its own. No constant is ever chosen here.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from evaluation.items import read_items  # noqa: E402
from evaluation.report import Row, judge, summary, unrelated  # noqa: E402
from systone.models import mini  # noqa: E402
from systone.protocol.types import Answer, Request  # noqa: E402

COLUMNS = {
    "choice": ("accuracy", "majority", "brier", "uniform_brier", "ece"),
    "noul": ("auc", "brier", "uniform_brier", "ece", "accuracy"),
    "score": ("exact", "majority", "mae", "uniform_mae", "rps", "uniform_rps"),
}


def main() -> int:
    """Exit 0 when every file could be judged."""
    parser = argparse.ArgumentParser(description="Judge systone-mini on labelled items.")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    loaded = mini.load()
    loaded.executor.start()

    def ask(request: Request) -> Answer:
        prepared = loaded.adapter.prepare(request)
        (readout,) = loaded.executor.execute([prepared])
        if isinstance(readout, Exception):
            raise readout
        return loaded.adapter.finish(prepared, readout).answers["q"]

    results: dict[str, dict[str, float]] = {}
    for path in options.files:
        groups = read_items(path)
        rows = [judge(group, ask) for group in groups]
        print_table(path.name, rows)
        results[path.name] = summary(rows) | unrelated(groups, ask)
        print_summary(results[path.name])
    loaded.executor.close()
    card = loaded.adapter.card
    print(json.dumps({"model": card.name, "revision": card.revision, "results": results}))
    return 0


def print_table(name: str, rows: list[Row]) -> None:
    """One block per kind, one line per question."""
    for kind, columns in COLUMNS.items():
        chosen = [row for row in rows if row.kind == kind]
        if not chosen:
            continue
        print(f"\n{name}: {kind}")
        print(f"{'question':26}{'n':>5}" + "".join(f"{c:>15}" for c in columns))
        for row in chosen:
            figures = "".join(f"{row.figures[c]:15.3f}" for c in columns)
            print(f"{row.id[:25]:26}{row.n:5d}{figures}")


def print_summary(figures: dict[str, float]) -> None:
    """The file's means."""
    print("\n" + "  ".join(f"{name} {value:.3f}" for name, value in figures.items()))


if __name__ == "__main__":
    sys.exit(main())
