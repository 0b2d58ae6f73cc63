"""A pass on its way, with events and outputs that stand for a device: what is recorded when, what
is waited for, what is counted; and the arithmetic of a device that is too small."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from systone.errors import ConfigError, EngineFaultError
from systone.execute import gpu_clock
from systone.execute.gpu_clock import GpuClock
from systone.execute.gpu_launch import GpuLaunch
from systone.execute.gpu_memory import LIBRARY_BYTES, MemoryPlan, weight_bytes
from systone.execute.gpu_pace import one_row

GIB = 2**30


class Device:
    """A stream whose time moves by the milliseconds of each part."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = 0.0
        self.waited = 0
        device = self

        class Event:
            def record(self, stream: object) -> None:
                self.at_ms = device.now_ms

            def synchronize(self) -> None:
                device.waited += 1

            def elapsed_time(self, later: Event) -> float:
                return later.at_ms - self.at_ms

        monkeypatch.setattr(gpu_clock, "_event", Event)


class Passes:
    """`parts`: milliseconds of each part, after so many of idle time."""

    def __init__(self, device: Device, parts: list[tuple[float, float]]) -> None:
        self.device, self.left = device, parts

    def on_copy(self, call) -> None:
        self.call = call

    def parts(self, tables) -> Iterator[np.ndarray | None]:
        for at, (idle_ms, took_ms) in enumerate(self.left):
            self.device.now_ms += idle_ms
            self.call()
            self.device.now_ms += took_ms
            yield np.full((8, 1), 7.0, np.float32) if at == len(self.left) - 1 else None


class Outputs:
    def send(self, scores: np.ndarray) -> SimpleNamespace:
        return SimpleNamespace(take=lambda: scores)


def launch(device, clock, *parts: tuple[float, float], passes: int = 1) -> GpuLaunch:
    tables = [one_row(5, 100)] * passes
    return GpuLaunch(Passes(device, list(parts)), Outputs(), clock, tables, nullcontext())


def test_scores_are_taken_once_every_part_is_enqueued(monkeypatch) -> None:
    device, clock = Device(monkeypatch), GpuClock()
    made = launch(device, clock, (0, 2), (0, 3))
    assert made.enqueue()
    with pytest.raises(EngineFaultError, match="not enqueued whole"):
        made.take()
    assert not made.enqueue()
    assert made.take().tolist() == [[7.0]]
    assert device.waited == 2
    assert made.seconds == pytest.approx(0.005)


def test_passes_that_stand_for_one_give_one_array(monkeypatch) -> None:
    made = launch(Device(monkeypatch), GpuClock(), (0, 1), passes=3)
    assert [made.enqueue() for _ in range(3)] == [True, True, False]
    assert made.take().shape == (3, 1)


def test_idle_time_is_what_lies_between_parts_of_any_pass(monkeypatch) -> None:
    device, clock = Device(monkeypatch), GpuClock()
    first = launch(device, clock, (50, 10))
    second = launch(device, clock, (4, 6), (0, 20))
    for made in (first, second):
        while made.enqueue():
            pass
    for made in (first, second):
        made.take()
    assert clock.describe() == {
        "parts": 3, "busy_s": 0.036, "idle_s": 0.004, "longest_idle_s": 0.004,
    }  # fmt: skip


def test_idle_time_counts_once_however_often_it_is_settled(monkeypatch) -> None:
    device, clock = Device(monkeypatch), GpuClock()
    for at in range(4):
        made = launch(device, clock, (10 * at, 5))  # settles what was taken before
        made.enqueue()
        made.take()
        for _ in range(at):
            clock.settle()
    assert clock.describe() == clock.describe()
    assert clock.describe() == {
        "parts": 4, "busy_s": 0.02, "idle_s": 0.06, "longest_idle_s": 0.03,
    }  # fmt: skip


def plan(**changed: int) -> MemoryPlan:
    sizes = {"weights": 18 * GIB, "arena": 2 * GIB, "states": GIB, "beside": 0, "tables": 0}
    return MemoryPlan(**sizes | changed)


def test_a_plan_counts_everything_beside_the_weights() -> None:
    assert plan(beside=3, tables=5).beyond_weights == 3 * GIB + 8 + LIBRARY_BYTES
    plan().require_fit(3 * GIB + LIBRARY_BYTES, 24 * GIB, "9 tokens")


def test_weights_count_once_wherever_they_hang() -> None:
    @dataclass
    class Layer:
        a: torch.Tensor
        name: str

    shared = torch.zeros(8, 4, dtype=torch.bfloat16)
    tree = (Layer(shared, "x"), {"y": [Layer(shared[2:], "y"), torch.zeros(3)]}, shared.t())
    assert weight_bytes(tree) == 8 * 4 * 2 + 3 * 4


def test_a_device_that_is_too_small_is_told_the_arithmetic() -> None:
    with pytest.raises(ConfigError) as caught:
        plan().require_fit(3 * GIB, 22 * GIB, "9 tokens")
    text = str(caught.value)
    assert "\n" not in text
    for part in ("9 tokens", "weights 18.00 + arena 2.00 + states 1.00", "libraries 0.25",
                 "= 21.25 GiB", "it has 22.00", "3.00 are free", "3.25 are needed"):  # fmt: skip
        assert part in text
