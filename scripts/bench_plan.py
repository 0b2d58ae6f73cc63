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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from systone.models.open_jev import OpenJevAdapter, OpenJevCheckpoint
from systone.models.open_jev.checks import read_request
from systone.models.open_jev.rows import RowMaker
from systone.models.qwen_tokens import load_tokenizer
from systone.plan import PassBudget, Sharing, Trie, build_tables, build_trie, cut_passes
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


def measure(directory: Path, request: Request, rounds: int) -> dict[str, Any]:
    """Stages of one request, and the whole of prepare and tables together."""
    tokenizer = load_tokenizer(directory)
    checkpoint = OpenJevCheckpoint("Qwen/Qwen3.5-9B", "-", "-", "-", 1.9)
    adapter = OpenJevAdapter(checkpoint, tokenizer)
    maker = RowMaker(tokenizer)
    text = read_request(request, strict=False)
    rows = maker.rows(text)
    trie = build_trie(rows, Sharing())
    stages: dict[str, Callable[[], object]] = {
        "read": lambda: read_request(request, strict=False),
        "rows": lambda: maker.rows(text),
        "trie": lambda: build_trie(rows, Sharing()),
        "tables": lambda: tables_of(trie),
        "prepare + tables": lambda: tables_of(adapter.prepare(request).work),
    }
    for work in stages.values():
        work()
    return {
        "tokens": trie.load.tokens,
        "rows": trie.num_rows,
        "ms": {name: timed(work, rounds) for name, work in stages.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of planning")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    report = {
        "short": measure(args.tokenizer, short_request(), args.rounds),
        "long": measure(args.tokenizer, long_request(), max(5, args.rounds // 10)),
    }
    for name, result in report.items():
        print(f"{name}: {result['tokens']} unique tokens, {result['rows']} rows")
        for stage, times in result["ms"].items():
            line = "  ".join(f"{key} {value:8.3f}" for key, value in times.items())
            print(f"  {stage:18} {line} ms")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
