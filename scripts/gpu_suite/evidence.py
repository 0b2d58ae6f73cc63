"""Writes the evidence of exactness and of forward times under $OUT: one gpu_PART.json a part.

`merge` joins the exactness parts (EXACT) of $OUT into gpu_exact.json and fails when a check does.
python3 -m scripts.gpu_suite.evidence --commit HASH --seconds N [list|http|whole-9b|...|merge]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scripts.gpu_suite.exact import Bits, Checks, Requests, exact_rows, long_list, modes
from scripts.gpu_suite.faults import fault_rows, hidden_rows
from scripts.gpu_suite.forward import forward_rows
from scripts.gpu_suite.http_checks import http_rows
from scripts.gpu_suite.inexact import inexact_rows
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


def started(
    model: Any, graphs: GraphSettings | None, limits: GpuLimits = LIMITS, **settings: Any
) -> GpuRunner:
    runner = GpuRunner(lambda _: model, "cuda", limits, StartSettings(graphs, **settings))
    began = time.perf_counter()
    runner.start()
    said = runner.describe()
    say(f"start {time.perf_counter() - began:.1f} s {said['selfcheck']} {said['launches']}")
    return runner


def start() -> Iterator[dict[str, Any]]:
    """Seconds of whole starts without kept verdicts: kernels compiled anew, then from the cache."""
    cache = os.environ.get("TRITON_CACHE_DIR", "")
    if not cache or any(Path(cache).iterdir()):
        cache = tempfile.mkdtemp()
    for name in ("cold", "warm kernel cache"):
        said = child("one-start", {"TRITON_CACHE_DIR": cache})["start"]
        limit = 60 if name == "cold" else 15
        yield {"name": f"start, {name}", "seconds": said["seconds"], "limit": limit,
               "within": said["seconds"] < limit, "parts": said["selfcheck"]["seconds"],
               "modes": said["selfcheck"]["products"]}  # fmt: skip


def one_start() -> Iterator[dict[str, Any]]:
    model = decision(served(recipe("open-jev-9b")))
    torch.cuda.synchronize()
    began = time.perf_counter()
    runner = started(model, GraphSettings(tokens=4096), verdicts=None)
    seconds = round(time.perf_counter() - began, 2)
    yield {"start": {"seconds": seconds, **runner.describe()}}
    runner.close()


def the_list() -> Iterator[dict[str, Any]]:
    """The long list on the full-width 9B of 8 layers, and faults."""
    model = decision(served(recipe("open-jev-9b", layers=8)))
    say("8 layers placed")
    runner = started(model, GraphSettings(tokens=4096, small_depths=(0, 1, 2)))
    yield {"selfcheck": runner.describe()["selfcheck"]}
    eager = started(model, None)
    requests = long_list()
    few = requests[8:40]
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(child, "digest")
        yield from fault_rows(runner, eager, few)
        small = GpuLimits(tokens=4096, states=256)
        yield from hidden_rows(
            lambda: started(model, None, limits=small, verdicts=None), few,
            Bits(eager).of(few), {(4096, 12288)},
        )  # fmt: skip
        truth = Bits(eager).alone(requests)
        yield from second_model_rows(runner, requests, truth)
        before = runner.describe()["compilations_since_ready"]
        yield from exact_rows(runner, eager, requests, truth)
        said = runner.describe()
        count = said["compilations_since_ready"] - before
        yield {"name": "compilations while the list ran", "count": count, "within": count == 0,
               "launches": said["launches"]}  # fmt: skip
        yield _across_starts(truth, other.result())
    runner.close()
    eager.close()


def _across_starts(truth: np.ndarray, other: dict[str, Any]) -> dict[str, Any]:
    (found,) = other["checks"]
    same = found["sha256"] == sha256(truth).hexdigest()
    return {"name": "two process starts", "rows": found["rows"],
            "equal": same if found["refused"] == 0 else None, "modes": found["modes"]}  # fmt: skip


def second_model_rows(
    runner: GpuRunner, requests: Requests, truth: np.ndarray
) -> Iterator[dict[str, Any]]:
    """A 27B layout comes, is asked in turn with the first model, and goes."""
    checks, bits = Checks(truth), Bits(runner)
    yield checks.row("with a second model loaded, in turn", runner,
                     lambda: _in_turn(bits, requests))  # fmt: skip
    torch.cuda.empty_cache()
    yield checks.row("after the second model is gone", runner, lambda: bits.of(requests))


def _in_turn(bits: Bits, requests: Requests) -> np.ndarray:
    model = decision(served(recipe("open-jev-27b-v1.1", layers=4), seed=1))
    other = started(model, GraphSettings(tokens=1024))
    theirs = [Bits(other).of(requests[8:24])]
    found = []
    for policy in ("default", "shared"):
        found.append(bits.of(requests, policy))
        theirs.append(Bits(other).of(requests[8:24], policy))
    other.close()
    assert all(np.array_equal(theirs[0], bits) for bits in theirs), "the second model's bits moved"
    return found[0] if np.array_equal(*found) else np.zeros_like(found[0])


def digest() -> Iterator[dict[str, Any]]:
    """The bits of one start; equal in every process on the same device."""
    model = decision(served(recipe("open-jev-9b", layers=8)))
    runner = started(model, GraphSettings(tokens=4096))
    bits = Bits(runner).of(long_list(), "default")
    yield {
        "name": "digest of one start", "rows": len(bits), "sha256": sha256(bits).hexdigest(),
        "refused": runner.describe()["selfcheck"]["refused"], "modes": modes(runner),
    }  # fmt: skip
    runner.close()


def whole(name: str, graphs: int) -> Iterator[dict[str, Any]]:
    """A whole model once: alone, packed, shared, split, replayed; then its speed."""
    model = decision(served(recipe(name)), consume=True)
    say(f"{name} placed")
    runner = started(model, GraphSettings(tokens=graphs))
    yield {"selfcheck": runner.describe()["selfcheck"]}
    requests = [rows[:24] for rows in long_list()[:7] + long_list()[8:40] + long_list()[-4:]]
    bits = Bits(runner)
    checks = Checks(bits.of(requests, "off", PassBudget(4096, 1, 256)))
    for policy, budget in (("off", 4096), ("shared", 4096), ("shared", 1024), ("auto", 16384)):
        yield checks.row(
            f"{name}: {policy}, {budget} tokens", runner,
            lambda p=policy, b=budget: bits.of(requests, p, PassBudget(b, 512, 256)),
        )  # fmt: skip
    yield from inexact_rows(name, runner)
    yield {"name": f"{name}: peak", "bytes": torch.cuda.max_memory_allocated(),
           "launches": runner.describe()["launches"]}  # fmt: skip
    runner.close()


def child(part: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """What a part writes in a process of its own."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(
            [sys.executable, "-m", "scripts.gpu_suite.evidence", part], check=True,
            env={**os.environ, **(environment or {}), "OUT": out},
        )  # fmt: skip
        return dict(json.loads((Path(out) / f"gpu_{part}.json").read_text()))


def forward(name: str, only: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """`only`: shapes; none: all."""
    model = decision(served(recipe(name)))
    say(f"{name} placed")
    runner = started(model, GraphSettings(tokens=4096))
    yield {"start": runner.describe()}
    yield from forward_rows(name, runner, only)
    yield {"peak_bytes": torch.cuda.max_memory_allocated(),
           "compilations": runner.describe()["compilations_since_ready"]}  # fmt: skip
    runner.close()


PARTS = {
    "start": start,
    "one-start": one_start,
    "list": the_list,
    "digest": digest,
    "http": http_rows,
    "whole-9b": lambda: whole("open-jev-9b", 4096),
    "whole-27b": lambda: whole("open-jev-27b-v1.1", 1024),
    "forward": lambda: forward("open-jev-9b"),
    "forward-27b": lambda: forward("open-jev-27b-v1.1", ("1x1024", "1x2048", "1x4096")),
}
EXACT = ("start", "list", "http", "whole-9b", "whole-27b")


def write(name: str, commit: str, rows: list[dict[str, Any]]) -> None:
    report: dict[str, Any] = {"commit": commit, **_machine()}
    if not name.startswith("forward"):
        report["checks"] = [row for row in rows if "name" in row]
        report |= {k: v for row in rows if "name" not in row for k, v in row.items()}
    else:
        report["forward"] = [row for row in rows if "shape" in row]
        report |= {k: v for row in rows if "shape" not in row for k, v in row.items()}
    _target(name).write_text(json.dumps(report, indent=1))


@cache
def _machine() -> dict[str, str]:
    return machine()


def merge() -> bool:
    """gpu_exact.json of the parts that wrote something; whether every check holds. Needs no GPU."""
    found = {p: json.loads(_target(p).read_text()) for p in EXACT if _target(p).is_file()}
    checks = [{"part": p, **row} for p, part in found.items() for row in part["checks"]]
    first = next(iter(found.values()), {})
    report = {
        "commit": {p: part["commit"] for p, part in found.items()},
        **{key: first.get(key) for key in ("device", "driver", "clocks", "torch", "triton")},
        "model": "open-jev, random weights made on the device",
        "compared": "final hidden states (bf16) and FP32 head scores of every row, bit for bit, "
        "with the row alone, eager; over HTTP FP32 scores with those of a --pack off server",
        "selfcheck": {p: part["selfcheck"] for p, part in found.items() if "selfcheck" in part},
        "checks": checks,
        "not_run": [p for p in EXACT if p not in found]
        + [f"{p}: stopped early" for p, part in found.items() if "failed" in part]
        + [row["name"] for row in checks if "equal" in row and row["equal"] is None],
    }  # fmt: skip
    _target("exact").write_text(json.dumps(report, indent=1))
    bad = [row["name"] for row in checks
           if False in (row.get("equal"), row.get("caught"), row.get("within"))]  # fmt: skip
    say(f"{len(checks)} checks; failed: {bad or 'none'}; not run: {report['not_run'] or 'none'}")
    return not bad and not report["not_run"]


def _target(name: str) -> Path:
    return Path(os.environ.get("OUT", ".")) / f"gpu_{name}.json"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("parts", nargs="*", default=[*EXACT, "merge"])
    args = parser.parse_args()
    if args.parts == ["merge"]:
        raise SystemExit(not merge())
    failed = False
    for part in args.parts:
        rows: list[dict[str, Any]] = []
        try:
            for row in PARTS[part]():
                rows.append(row)
                write(part, args.commit, rows)  # a call that is cut short keeps what it showed
                if "selfcheck" not in row and "start" not in row:
                    say("  ".join(str(value) for value in row.values()))
                if time.perf_counter() - BEGAN > args.seconds:
                    rows.append({"stopped_after_s": args.seconds})
                    break
        except Exception:
            failed = True
            rows.append({"failed": traceback.format_exc(limit=-3)})
            traceback.print_exc(limit=-6)
        write(part, args.commit, rows)
        gc.collect()
        torch.cuda.empty_cache()
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
