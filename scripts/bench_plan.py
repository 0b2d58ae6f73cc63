"""How long a request spends on the CPU before its first pass: prompts, tokens, trie, tables.

usage: bench_plan.py --tokenizer DIR [--rounds N]

DIR has tokenizer.json and tokenizer_config.json (any Qwen3.5 checkpoint, or `systone synth`'s).
Prints milliseconds per stage and, as the last line, JSON. The process clock counts all threads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from systone.bench.shape231 import shape_231
from systone.bench.words import word_pool
from systone.models.open_jev import OpenJevAdapter, OpenJevCheckpoint
from systone.models.open_jev.checks import read_request
from systone.models.open_jev.rows import RowMaker
from systone.models.qwen_tokens import QwenTokenizer, load_tokenizer
from systone.plan import PassBudget, Sharing, TablesMemo, Trie, build_tables, build_trie, cut_passes
from systone.protocol import jsontext, systemone
from systone.protocol.types import Choice, Request

BUDGET = PassBudget(tokens=16384, rows=1024, states=1024)
_TEXT = (
    "the customer wrote about an order that arrived late and asked whether it could be "
    "returned before Friday because invoice 4711 shows a second charge of 18.50 euros"
)
_WORDS = _TEXT.split()


def long_request() -> Request:
    """255 options on a state of about 3,400 tokens."""
    sentences = [" ".join(_WORDS[(i + j) % len(_WORDS)] for j in range(17)) for i in range(138)]
    options: dict[str, Any] = {
        f"team {i}": f"Handles everything about area {i} of the business." for i in range(255)
    }
    return Request(
        ".\n".join(sentences), {"route": Choice("Which team should handle this?", options)}
    )


def short_request() -> Request:
    """Four options whose unique tokens are about 181."""
    options: dict[str, Any] = {
        "billing": "Problems with charges.",
        "security": "Unauthorized access.",
        "technical": "Service unavailable.",
        "other": "Anything else.",
    }
    state = " ".join(_WORDS[i % len(_WORDS)] for i in range(48))
    return Request(state, {"route": Choice("Which team should handle this issue?", options)})


def tables_of(trie: Trie) -> None:
    for parts in cut_passes([trie], BUDGET):
        build_tables(parts)


def timed(work: Callable[[], object], rounds: int) -> dict[str, float]:
    """Milliseconds of one call: median and least of the wall clock, least of the CPU clock."""
    wall, cpu = [], []
    for _ in range(rounds):
        wall_began, cpu_began = time.perf_counter(), time.process_time()
        work()
        wall.append((time.perf_counter() - wall_began) * 1e3)
        cpu.append((time.process_time() - cpu_began) * 1e3)
    return {"p50": statistics.median(wall), "least": min(wall), "least_cpu": min(cpu)}


def common_requests(tokenizer: QwenTokenizer, count: int) -> list[Request]:
    """The 231-shape's commonest request, a choice of five on 60 words, each in other words."""
    workload = shape_231(word_pool(tokenizer), seed=0)
    sizes = Counter((item.kind, item.unique) for item in workload.items)
    ((common, _),) = sizes.most_common(1)
    places = [i for i, item in enumerate(workload.items) if (item.kind, item.unique) == common]
    bodies = (workload.make(places[n % len(places)], n // len(places)) for n in range(count))
    return [systemone.parse(jsontext.dumps(body), dialect="default") for body in bodies]


def measure(directory: Path, requests: Sequence[Request], rounds: int) -> dict[str, Any]:
    """Stages of the requests in turn, and the whole of prepare and tables together. Pieces and
    structures met before are looked up as a server looks them up."""
    tokenizer = load_tokenizer(directory)
    tokenizer.learn_common_words()
    checkpoint = OpenJevCheckpoint("Qwen/Qwen3.5-9B", "-", "-", "-", 1.9)
    adapter, maker, memo = OpenJevAdapter(checkpoint, tokenizer), RowMaker(tokenizer), TablesMemo()
    asked = cycle(requests)
    texts = [read_request(request, strict=False) for request in requests]
    text = cycle(texts)
    rows = cycle([maker.rows(each) for each in texts])
    tries = [build_trie(next(rows), Sharing()) for _ in texts]
    trie = cycle(tries)
    stages: dict[str, Callable[[], object]] = {
        "read": lambda: read_request(next(asked), strict=False),
        "rows": lambda: maker.rows(next(text)),
        "trie": lambda: build_trie(next(rows), Sharing()),
        "tables": lambda: tables_of(next(trie)),
        "tables met before": lambda: [memo.of(p) for p in cut_passes([next(trie)], BUDGET)],
        "prepare": lambda: adapter.prepare(next(asked)),
        "prepare + tables": lambda: tables_of(adapter.prepare(next(asked)).work),
    }
    for work in stages.values():
        work()
    return {
        "tokens": tries[0].load.tokens,
        "rows": tries[0].num_rows,
        "ms": {name: timed(work, rounds) for name, work in stages.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of planning")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    # so many that no text is met twice
    common = common_requests(load_tokenizer(args.tokenizer), 4 * args.rounds + 4)
    report = {
        "short": measure(args.tokenizer, [short_request()], args.rounds),
        "common": measure(args.tokenizer, common, args.rounds),
        "long": measure(args.tokenizer, [long_request()], max(5, args.rounds // 10)),
    }
    for name, result in report.items():
        print(f"{name}: {result['tokens']} unique tokens, {result['rows']} rows")
        for stage, times in result["ms"].items():
            line = "  ".join(f"{key} {value:8.3f}" for key, value in times.items())
            print(f"  {stage:18} {line} ms")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
