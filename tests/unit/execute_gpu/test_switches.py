"""Our stream and inference mode hold inside and are put back after, whatever happens inside."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from systone.errors import EngineDownError
from systone.execute.gpu_switches import Switches

OURS = SimpleNamespace(device="cuda:0", stream_id=7, device_index=0, device_type=1)
OUR_ID, THEIR_ID = (7, 0, 1), (3, 0, 1)


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The current stream of a thread that had another one."""
    current: list[tuple[int, ...]] = [THEIR_ID]

    def switch(*, stream_id: int, device_index: int, device_type: int) -> None:
        current.append((stream_id, device_index, device_type))

    monkeypatch.setattr(
        torch._C, "_cuda_getCurrentStream", lambda index: current[-1], raising=False
    )
    monkeypatch.setattr(torch._C, "_cuda_setStream", switch, raising=False)
    return current


def test_they_hold_inside_and_are_put_back(streams: list[tuple[int, ...]]) -> None:
    switches = Switches(OURS)  # type: ignore[arg-type]
    for _ in range(2):
        with switches:
            assert torch.is_inference_mode_enabled()
            assert streams[-1] == OUR_ID
        assert not torch.is_inference_mode_enabled()
        assert streams[-1] == THEIR_ID


def test_errors_pass_and_a_lost_device_is_an_engine_down(streams: list[tuple[int, ...]]) -> None:
    switches = Switches(OURS)  # type: ignore[arg-type]
    for raised, seen in ((KeyError("x"), KeyError), (torch.AcceleratorError("x"), EngineDownError)):
        with pytest.raises(seen), switches:
            raise raised
        assert not torch.is_inference_mode_enabled()
        assert streams[-1] == THEIR_ID


def test_they_are_not_entered_inside_themselves(streams: list[tuple[int, ...]]) -> None:
    switches = Switches(OURS)  # type: ignore[arg-type]
    with pytest.raises(AssertionError), switches, switches:
        pass
