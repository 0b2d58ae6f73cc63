"""Measure a Laya-class model in process: `bench_laya.py DIR [--device D] [--batches N..]`.

Prints milliseconds per question and questions per second for short and long states, alone and in
batches; the last line is JSON. Answers' quality isn't looked at, so random weights will do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

from systone.config import ModelSettings
from systone.models.base import Loaded
from systone.models.laya import load_directory
from systone.protocol.types import Choice, Noul, Request, Score

QUESTIONS = (
    Choice("Where does it go?", {"inner": "sheltered", "outer": "deep water", "buoy": None}),
    Noul("Is fuel asked for?"),
    Score("How strong is the wind?", ["calm", "a breeze", "a gale"]),
    Noul("Is the cargo dry?"),
)
SENTENCE = "The ketch came in at dusk with salt and timber and a torn jib. "
STATES = {"short": SENTENCE * 4, "long": SENTENCE * 40}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16], help="requests at once")
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    began = time.perf_counter()
    model = load_directory(args.directory, ModelSettings(device=args.device))
    model.executor.start()
    figures: dict[str, object] = {"load_s": round(time.perf_counter() - began, 2)}
    for name, state in STATES.items():
        for size in args.batches:
            figures[f"{name} x{size}"] = measure(model, state, size, args.rounds)
    figures |= {"model": model.adapter.card.name, **model.executor.describe()}
    model.executor.close()
    for key, value in figures.items():
        print(f"{key:14} {value}")
    print(json.dumps(figures))
    return 0


def measure(model: Loaded, state: str, size: int, rounds: int) -> dict[str, float]:
    """A batch of `size` requests of four questions, `rounds` times after two warm-ups."""
    request = Request(state, {str(i): question for i, question in enumerate(QUESTIONS)})
    batch = [model.adapter.prepare(request) for _ in range(size)]
    times = []
    for _ in range(rounds + 2):
        began = time.perf_counter()
        model.executor.execute(batch)
        times.append(time.perf_counter() - began)
    p50 = statistics.median(times[2:])
    questions = size * len(QUESTIONS)
    return {
        "tokens_per_row": batch[0].cost.tokens / len(QUESTIONS),
        "batch_p50_ms": round(1e3 * p50, 2),
        "ms_per_question": round(1e3 * p50 / questions, 3),
        "questions_per_s": round(questions / p50, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
