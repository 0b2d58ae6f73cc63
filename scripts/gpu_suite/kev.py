"""Kev at full size with random weights: exactness, model time, long states, load through an engine.

python3 -m scripts.gpu_suite.kev [--commit HASH] [--model kev-4b] [--max-length N] [exact times ...]
Writes a row at a time to $OUT/gpu_kev.json. Times are milliseconds of wall clock unless said.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scripts.gpu_suite.kev_exact import exact_rows, label_rows
from scripts.gpu_suite.kev_load import http_rows, load_rows
from scripts.gpu_suite.kev_times import long_rows, times_rows
from scripts.gpu_suite.timing import machine
from systone import Engine
from systone.config import EngineConfig, ModelSettings
from systone.models import registry

BEGAN = time.perf_counter()


def say(text: str) -> None:
    print(f"[{time.perf_counter() - BEGAN:6.1f}] {text}", flush=True)


class Report:
    """Rows as they come, on the screen and in the file."""

    def __init__(self, path: Path, facts: dict[str, Any]) -> None:
        self._path, self._held = path, {**facts, "rows": []}

    def add(self, part: str, row: dict[str, Any]) -> None:
        self._held["rows"].append({"part": part, **row})
        say("  ".join(f"{key}={value}" for key, value in row.items()))
        self._path.write_text(json.dumps(self._held, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commit", default=os.environ.get("COMMIT", "unknown"))
    parser.add_argument("--model", default="kev-4b")
    parser.add_argument("--max-length", type=int)
    parser.add_argument("--seconds", type=float, default=4.0, help="of the closed loop")
    parser.add_argument("--requests", type=int, default=4500, help="over HTTP")
    parser.add_argument(
        "parts", nargs="*", default=["exact", "labels", "times", "long", "load", "http"]
    )
    args = parser.parse_args()
    settings = ModelSettings(
        source=f"synth:{args.model}", device="cuda", max_length=args.max_length
    )
    loaded = registry.load(settings.source, settings)
    say("weights drawn")
    report = Report(
        Path(os.environ.get("OUT", ".")) / "gpu_kev.json",
        {"commit": args.commit, "model": args.model, **machine()},
    )
    engine = Engine([loaded], EngineConfig(model=settings))
    with engine:
        runner = loaded.executor.runner  # type: ignore[attr-defined]
        said = runner.describe()
        shown = ("selfcheck", "launches", "pass_limits", "pass_ms", "memory")
        row = {"name": "start", **{key: said[key] for key in shown}}
        report.add("start", row | {"batch_tokens": loaded.executor.describe().get("batch_tokens")})
        parts: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
            "exact": lambda: exact_rows(loaded, runner),
            "labels": lambda: label_rows(loaded, runner),
            "times": lambda: times_rows(loaded, runner),
            "long": lambda: long_rows(loaded, runner),
            "load": lambda: load_rows(engine, loaded, args.seconds),
            "http": lambda: http_rows(engine, loaded, args.requests),
        }
        for part in args.parts:  # the engine is idle while a part uses its runner
            for row in parts[part]():
                report.add(part, row)
        said = runner.describe()
        report.add("end", {"name": "end", "launches": said["launches"]})
    wrong = [row for row in report._held["rows"] if row.get("equal") is False]
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
