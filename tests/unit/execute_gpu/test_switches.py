"""Our stream and inference mode hold inside and are put back after, whatever happens inside."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from systone.errors import EngineDownError
from systone.execute.gpu_switches import Switches

OURS = SimpleNamespace(device="cuda:0")


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The current stream of a thread that had another one."""
    current: list[object] = ["theirs"]
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current[-1])
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: current.append(stream))
    return current


def test_they_hold_inside_and_are_put_back(streams: list[object]) -> None:
    switches = Switches(OURS)  # type: ignore[arg-type]
    for _ in range(2):
        with switches:
            assert torch.is_inference_mode_enabled()
            assert streams[-1] is OURS
        assert not torch.is_inference_mode_enabled()
        assert streams[-1] == "theirs"


def test_errors_pass_and_a_lost_device_is_an_engine_down(streams: list[object]) -> None:
    switches = Switches(OURS)  # type: ignore[arg-type]
    for raised, seen in ((KeyError("x"), KeyError), (torch.AcceleratorError("x"), EngineDownError)):
        with pytest.raises(seen), switches:
            raise raised
        assert not torch.is_inference_mode_enabled()
        assert streams[-1] == "theirs"


def test_they_are_not_entered_inside_themselves(streams: list[object]) -> None:
    switches = Switches(OURS)  # type: ignore[arg-type]
    with pytest.raises(AssertionError), switches, switches:
        pass
