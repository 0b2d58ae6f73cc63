"""Writes gpu_exact.json and gpu_forward.json under $OUT, part by part, within a time limit.

python3 -m scripts.gpu_suite.evidence --commit HASH --seconds N [exact|forward|digest|whole-9b|...]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
import traceback
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scripts.gpu_suite.exact import Bits, exact_rows, fault_rows, long_list
from scripts.gpu_suite.forward import forward_rows
from scripts.gpu_suite.models import decision, recipe, served
from scripts.gpu_suite.timing import machine
from systone.execute.gpu_runner import GpuLimits, GpuRunner
from systone.execute.graph_passes import GraphSettings
from systone.execute.selfcheck_start import StartSettings
from systone.plan import PassBudget

LIMITS = GpuLimits(tokens=16384, segments=4096, states=512)
BEGAN = time.perf_counter()


def say(text: str) -> None:
    print(f"[{time.perf_counter() - BEGAN:6.1f}] {text}", flush=True)


def started(model: Any, graphs: GraphSettings | None, **settings: Any) -> GpuRunner:
    runner = GpuRunner(lambda _: model, "cuda", LIMITS, StartSettings(graphs, **settings))
    began = time.perf_counter()
    runner.start()
    said = runner.describe()
    say(f"start {time.perf_counter() - began:.1f} s {said['selfcheck']} {said['launches']}")
    return runner


def exact() -> Iterator[dict[str, Any]]:
    model = decision(served(recipe("open-jev-9b", layers=8)))
    say("8 layers placed")
    runner = started(model, GraphSettings(tokens=4096, small_depths=(0, 1, 2)))
    yield {"selfcheck": runner.describe()["selfcheck"]}
    eager = started(model, None)
    yield {"selfcheck_warm_seconds": eager.describe()["selfcheck"]["seconds"]}
    requests = long_list()
    yield from exact_rows(runner, eager, requests)
    said = runner.describe()
    yield {"name": "compilations since ready", "count": said["compilations_since_ready"],
           "launches": said["launches"]}  # fmt: skip
    yield from fault_rows(runner, eager, requests[8:40])
    runner.close()
    eager.close()


def digest() -> Iterator[dict[str, Any]]:
    """The bits of one start; equal in every process on the same device."""
    model = decision(served(recipe("open-jev-9b", layers=8)))
    runner = started(model, GraphSettings(tokens=4096))
    bits = Bits(runner).of(long_list(), "default")
    yield {"name": "digest of one start", "rows": len(bits), "sha256": sha256(bits).hexdigest()}
    runner.close()


def whole(name: str, graphs: int) -> Iterator[dict[str, Any]]:
    """A whole model once: alone, packed, shared, split, replayed."""
    model = decision(served(recipe(name)))
    say(f"{name} placed")
    runner = started(model, GraphSettings(tokens=graphs))
    yield {"selfcheck": runner.describe()["selfcheck"]}
    requests = [rows[:24] for rows in long_list()[:7] + long_list()[8:40] + long_list()[-4:]]
    bits = Bits(runner)
    truth = bits.of(requests, "off", PassBudget(4096, 1, 256))
    for policy, budget in (("off", 4096), ("shared", 4096), ("shared", 1024), ("auto", 16384)):
        same = np.array_equal(bits.of(requests, policy, PassBudget(budget, 512, 256)), truth)
        yield {"name": f"{name}: {policy}, {budget} tokens", "rows": len(truth), "equal": same,
               "refused": runner.describe()["selfcheck"]["refused"]}  # fmt: skip
    yield {"name": "peak", "bytes": torch.cuda.max_memory_allocated(),
           "launches": runner.describe()["launches"]}  # fmt: skip
    runner.close()


def forward() -> Iterator[dict[str, Any]]:
    model = decision(served(recipe("open-jev-9b")))
    say("32 layers placed")
    runner = started(model, GraphSettings(tokens=4096))
    yield {"start": runner.describe()}
    yield from forward_rows("open-jev-9b", runner)
    yield {"peak_bytes": torch.cuda.max_memory_allocated(),
           "compilations": runner.describe()["compilations_since_ready"]}  # fmt: skip
    runner.close()


PARTS = {
    "exact": exact,
    "digest": digest,
    "whole-9b": lambda: whole("open-jev-9b", 4096),
    "whole-27b": lambda: whole("open-jev-27b-v1.1", 1024),
    "forward": forward,
}


def write(name: str, commit: str, rows: list[dict[str, Any]]) -> None:
    report: dict[str, Any] = {"commit": commit, **machine()}
    if name != "forward":
        report["checks"] = [row for row in rows if "name" in row]
        report |= {k: v for row in rows if "name" not in row for k, v in row.items()}
    else:
        report["forward"] = [row for row in rows if "shape" in row]
        report |= {k: v for row in rows if "shape" not in row for k, v in row.items()}
    target = Path(os.environ.get("OUT", ".")) / f"gpu_{name}.json"
    target.write_text(json.dumps(report, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("parts", nargs="*", default=["exact", "forward"])
    args = parser.parse_args()
    failed = False
    for part in args.parts:
        rows: list[dict[str, Any]] = []
        try:
            for row in PARTS[part]():
                rows.append(row)
                if "selfcheck" not in row and "start" not in row:
                    say("  ".join(str(value) for value in row.values()))
                if time.perf_counter() - BEGAN > args.seconds:
                    rows.append({"stopped_after_s": args.seconds})
                    break
        except Exception:
            failed = True
            traceback.print_exc(limit=-6)
        write(part, args.commit, rows)
        gc.collect()
        torch.cuda.empty_cache()
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
