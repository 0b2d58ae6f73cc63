"""Ranks states by each Noul of a labelled file; prints the area under the ROC curve of each.

Reads JSON lines `{"request": {"state", "questions"}, "expected": {id: bool, ...}}`; runs a built-in
model in process, one request after another. The last line is JSON with every figure.

    python scripts/evaluate_plus.py LABELLED.jsonl [--model systone-mini-plus] [--limit N]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from systone.config import ModelSettings
from systone.models import registry
from systone.models.base import Loaded
from systone.protocol.systemone import parse
from systone.protocol.types import Dialect, NoulAnswer, Question, Request

DIALECT: Dialect = "default"
Ranked = dict[str, list[tuple[float, bool]]]


def main() -> None:
    """Evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", default="systone-mini-plus", choices=list(registry.BUILT_IN))
    parser.add_argument("--limit", type=int, help="only the first N lines")
    args = parser.parse_args()
    began = time.perf_counter()
    loaded = registry.load(args.model, ModelSettings())
    loaded.executor.start()
    load_s = time.perf_counter() - began
    try:
        ranked, times, cpu = answer(loaded, list(labelled(args.file))[: args.limit])
    finally:
        loaded.executor.close()
    report(args.model, ranked, times, cpu, load_s)


def labelled(file: Path) -> Iterator[tuple[Request, dict[str, bool]]]:
    """Requests cut down to their labelled Nouls; lines without one are skipped."""
    for line in file.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        request = parse(json.dumps(item["request"]).encode(), dialect=DIALECT)
        expected = {k: v for k, v in item["expected"].items() if isinstance(v, bool)}
        nouls: dict[str, Question] = {
            k: q for k, q in request.questions.items() if q.kind == "noul" and k in expected
        }
        if nouls:
            yield Request(state=request.state, questions=nouls), {k: expected[k] for k in nouls}


def answer(
    loaded: Loaded, items: list[tuple[Request, dict[str, bool]]]
) -> tuple[Ranked, list[float], list[float]]:
    """(probability, label) pairs by question, wall and processor seconds of each request."""
    ranked: Ranked = defaultdict(list)
    times, cpu = [], []
    for request, expected in items:
        began, worked = time.perf_counter(), time.process_time()
        prepared = loaded.adapter.prepare(request)
        (readout,) = loaded.executor.execute([prepared])
        if isinstance(readout, Exception):
            raise readout
        decision = loaded.adapter.finish(prepared, readout)
        times.append(time.perf_counter() - began)
        cpu.append(time.process_time() - worked)
        for id, label in expected.items():
            given = decision.answers[id]
            assert isinstance(given, NoulAnswer)
            ranked[id].append((given.noul, label))
    return ranked, times, cpu


def area(pairs: list[tuple[float, bool]]) -> float | None:
    """Chance that a yes ranks above a no, ties counting half; None with labels on one side."""
    yes = [p for p, label in pairs if label]
    no = [p for p, label in pairs if not label]
    if not yes or not no:
        return None
    won = sum((a > b) + 0.5 * (a == b) for a in yes for b in no)
    return won / (len(yes) * len(no))


def report(model: str, ranked: Ranked, times: list[float], cpu: list[float], load_s: float) -> None:
    """The table, then one line of JSON."""
    areas = {}
    print(f"{'question':28} {'n':>4} {'yes':>4} {'AUC':>6} {'p(yes)':>7} {'p(no)':>6}")
    for id, pairs in ranked.items():
        found = area(pairs)
        if found is None:
            print(f"{id:28} {len(pairs):4} labels on one side only")
            continue
        areas[id] = found
        yes = [p for p, label in pairs if label]
        no = [p for p, label in pairs if not label]
        means = f"{statistics.fmean(yes):7.3f} {statistics.fmean(no):6.3f}"
        print(f"{id:28} {len(pairs):4} {len(yes):4} {found:6.3f} {means}")
    if not areas:
        raise SystemExit("no question has labels on both sides: there is nothing to rank")
    figures: dict[str, Any] = {
        "model": model,
        "mean_auc": round(statistics.fmean(areas.values()), 4),
        "auc": {id: round(a, 4) for id, a in areas.items()},
        "requests": len(times),
        "p50_s": round(statistics.median(times), 4),
        "cpu_p50_s": round(statistics.median(cpu), 4),
        "max_s": round(max(times), 4),
        "load_s": round(load_s, 2),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(f"{'mean':28} {'':9} {figures['mean_auc']:6.3f}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
