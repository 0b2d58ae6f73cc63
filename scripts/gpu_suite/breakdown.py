"""Where a replayed forward's time goes: microseconds and launches of every kernel, by shape.

python3 -m scripts.gpu_suite.breakdown [SHAPE..] prints tables of the full-size 9B and writes
breakdown.json under $OUT: {shape: [{kernel, launches, us}]}, one forward, most time first. The
profiler slows replays a little: read shares, and take whole times from the forward part.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from scripts.gpu_suite.evidence import started
from scripts.gpu_suite.forward import forward_graphs, shapes
from scripts.gpu_suite.models import decision, recipe, served
from scripts.gpu_suite.timing import replay_ms
from systone.execute.graph_passes import GraphSettings

SHAPES = ("1x64", "1x256", "4 leaves, T=256", "1x1024", "40 leaves, T=1024", "1x4096")


def kernel_rows(call: Callable[[], object], calls: int = 3) -> list[dict[str, Any]]:
    """[{kernel, launches, us}] of one `call`, the kernel with most time first."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    spent: dict[str, list[float]] = {}
    for event in seen.events():
        if event.device_type == DeviceType.CUDA:
            times = spent.setdefault(event.name, [])
            times.append(event.time_range.end - event.time_range.start)
    rows = [
        {"kernel": name[:90], "launches": len(times) // calls, "us": round(sum(times) / calls, 1)}
        for name, times in spent.items()
    ]
    return sorted(rows, key=lambda row: -row["us"])


def main() -> None:
    model = decision(served(recipe("open-jev-9b")))
    runner = started(model, GraphSettings(tokens=4096))
    only = sys.argv[1:] or SHAPES
    found = {}
    for shape, tables in shapes():
        if shape not in only:
            continue
        runner.run(tables)
        call = forward_graphs(runner, tables)
        assert call is not None
        with torch.cuda.stream(runner._stream):
            whole = replay_ms(call)
            found[shape] = kernel_rows(call)
        kernels = sum(row["us"] for row in found[shape]) / 1e3
        print(f"{shape}: {whole:.3f} ms replayed, kernels {kernels:.3f} ms by the profiler")
        for row in found[shape][:24]:
            each = row["us"] / max(row["launches"], 1)
            print(f"  {row['us']:9.1f} us {row['launches']:5d} x {each:7.2f}  {row['kernel']}")
    runner.close()
    Path(os.environ.get("OUT", "."), "breakdown.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
