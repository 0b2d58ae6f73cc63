"""Calls timed in turn: who comes when, and what counts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("triton")

from scripts.gpu_suite import timing


def test_calls_take_turns_forth_and_back_and_settle_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, order = [0.0], []

    def replay_ms(call) -> float:
        order.append(call)
        clock[0] += 0.1
        return 100 * call + len(order)

    monkeypatch.setattr(timing, "replay_ms", replay_ms)
    monkeypatch.setattr(timing, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    taken = list(timing.turns({"a": 1, "b": 2}, rounds=2, round_s=0.35, settle_s=0.15))
    assert [turn.name for turn in taken] == ["a", "b", "b", "a"]
    assert order == [1] * 4 + [2] * 8 + [1] * 4
    assert [turn.times for turn in taken[:2]] == [[103, 104], [207, 208]]
    assert all(turn.end - turn.begin == pytest.approx(0.2) for turn in taken)


def test_a_sustained_time_is_the_mean_of_all_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [timing.Turn("a", 0, 1, [1.0, 3.0]), timing.Turn("b", 1, 2, [7.0]),
            timing.Turn("a", 2, 3, [5.0])]  # fmt: skip
    monkeypatch.setattr(timing, "turns", lambda *_: iter(made))
    assert timing.sustained_ms({"a": print, "b": print}) == {"a": 3.0, "b": 7.0}
