"""A pass replayed for seconds, as under load, beside the same now and then: what power costs.

python3 -m scripts.gpu_suite.sustained [TOKENS..] prints a row a bucket and choice of products and
writes sustained.json under $OUT: milliseconds of a trunk of the full-size 9B replayed without a
pause, the choices in turn, and with pauses between; clock (MHz) and power (W) without a pause.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any
from unittest.mock import patch

import torch

from scripts.gpu_suite.evidence import started
from scripts.gpu_suite.models import decision, recipe, served
from scripts.gpu_suite.timing import Replayed, machine, replay_ms, turns
from systone.execute.graph_passes import GraphedPasses, GraphSettings, TrunkKey
from systone.kernels.config import KernelConfig

TOKENS = (256, 512, 1024, 1536, 2048, 3072, 4096)
ROUNDS, ROUND_S = 5, 0.5
SETTLED_S = 0.2  # of a round, until the device has come to its clock
PAUSES, PAUSE_S = 8, 0.02


class Gauges(threading.Thread):
    """Clock and power of the device, again and again until stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[float, float, float]] = []  # moment, MHz, W
        self._stopped = threading.Event()

    def run(self) -> None:
        device = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        query = ["nvidia-smi", "-i", device, "--query-gpu=clocks.sm,power.draw",
                 "--format=csv,noheader,nounits"]  # fmt: skip
        while not self._stopped.wait(0.02):
            asked = time.monotonic()
            said = subprocess.run(query, capture_output=True, text=True, check=True).stdout
            clock, power = map(float, said.split(","))
            self.seen.append((asked, clock, power))

    def between(self, begin: float, end: float) -> list[tuple[float, float]]:
        return [(clock, power) for at, clock, power in self.seen if begin <= at < end]

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def choices(passes: GraphedPasses, key: TrunkKey) -> dict[str, Replayed]:
    """The trunk as it is served, and with every product cuBLASLt's."""
    made: dict[str, Replayed] = {"served": passes._capture_trunk(key)}
    gated, passes.split.products.gated = passes.split.products.gated, set()
    try:
        with patch.object(KernelConfig, "beats_library", lambda *_: False):
            made["library"] = passes._capture_trunk(key)
    finally:
        passes.split.products.gated = gated
    return made


def rows_of(passes: GraphedPasses, tokens: int, gauges: Gauges) -> Iterator[dict[str, Any]]:
    made = choices(passes, (tokens, passes.settings.depths[0]))
    taken: dict[str, list[float]] = {name: [] for name in made}
    read: dict[str, list[tuple[float, float]]] = {name: [] for name in made}
    calls = {name: graph.replay for name, graph in made.items()}
    for turn in turns(calls, ROUNDS, ROUND_S, SETTLED_S):
        taken[turn.name] += turn.times
        read[turn.name] += gauges.between(turn.begin, turn.end)
    for name, graph in made.items():
        rested = []
        for _ in range(PAUSES):
            time.sleep(PAUSE_S)
            rested.append(replay_ms(graph.replay, calls=1))
        row: dict[str, Any] = {"tokens": tokens, "products": name}
        row |= {"sustained_ms": round(mean(taken[name]), 3), "rested_ms": round(median(rested), 3)}
        if read[name]:
            clock, power = map(mean, zip(*read[name], strict=True))
            row |= {"mhz": round(clock), "watts": round(power)}
        yield row


def main() -> None:
    model = decision(served(recipe("open-jev-9b")))
    runner = started(model, GraphSettings(tokens=max(TOKENS)))
    passes = runner._passes
    assert passes is not None
    assert runner._stream is not None
    gauges = Gauges()
    gauges.start()
    found = []
    for tokens in map(int, sys.argv[1:] or TOKENS):
        with torch.cuda.stream(runner._stream), torch.inference_mode():
            for row in rows_of(passes, tokens, gauges):
                found.append(row)
                print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    gauges.stop()
    runner.close()
    report = {"commit": os.environ.get("COMMIT", "unknown"), **machine(), "rows": found}
    Path(os.environ.get("OUT", "."), "sustained.json").write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
