"""Times device work as CUDA graph replays, and names the machine it ran on."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import mean, median
from typing import Protocol

import torch
import triton


def graph_ms(call: Callable[[], object], *, calls: int = 10, replays: int = 7) -> float:
    """Median milliseconds of one call: `calls` of them captured in one graph, replayed."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    graph.replay()
    times = []
    for _ in range(replays):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / calls)
    return median(times)


def replay_ms(call: Callable[[], object], *, calls: int = 3) -> float:
    """Milliseconds of one call, `calls` of them enqueued on the current stream."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / calls


@dataclass(frozen=True, slots=True)
class Turn:
    """A call over and over: moments (`time.monotonic`) and the milliseconds of each."""

    name: str
    begin: float
    end: float
    times: list[float]


def turns(
    calls: Mapping[str, Callable[[], object]], rounds: int, round_s: float, settle_s: float
) -> Iterator[Turn]:
    """Each call over and over for `round_s` seconds at a time, in turn, forth and back. The first
    `settle_s` don't count: until then the device keeps the clock of what ran before."""
    for turn in range(rounds):
        for name in reversed(calls) if turn % 2 else calls:
            began, times = time.monotonic(), []
            while time.monotonic() < began + settle_s:
                replay_ms(calls[name])
            settled = time.monotonic()
            while not times or time.monotonic() < began + round_s:
                times.append(replay_ms(calls[name]))
            yield Turn(name, settled, time.monotonic(), times)


def sustained_ms(
    calls: Mapping[str, Callable[[], object]],
    rounds: int = 5,
    round_s: float = 0.4,
    settle_s: float = 0.15,
) -> dict[str, float]:
    """Mean milliseconds of a call that the device does nothing else than: `turns`."""
    seen: dict[str, list[float]] = {name: [] for name in calls}
    for turn in turns(calls, rounds, round_s, settle_s):
        seen[turn.name] += turn.times
    return {name: mean(times) for name, times in seen.items()}


def capture(call: Callable[[], object]) -> torch.cuda.CUDAGraph:
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    graph.replay()
    return graph


class Replayed(Protocol):
    """A graph, or what enqueues its work otherwise."""

    def replay(self) -> object: ...


def in_turn(graphs: Mapping[str, Replayed], runs: int, rounds: int = 5) -> dict[str, float]:
    """Median milliseconds of a run, from graphs of `runs` each replayed in turn, so that all of
    them meet the clocks of the same moment."""
    seen: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(rounds):
        for name, graph in graphs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            seen[name].append(begin.elapsed_time(end) / runs)
    return {name: median(values) for name, values in seen.items()}


def machine() -> dict[str, str]:
    """Commit is added by the caller: the copy on a lent machine may lack its history."""
    query = "driver_version,clocks.sm,clocks.mem,temperature.gpu"
    found = subprocess.run(
        ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
        capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    return {
        "device": torch.cuda.get_device_name(),
        "driver": found.split(",")[0],
        "clocks": found,
        "torch": torch.__version__,
        "triton": triton.__version__,
    }
