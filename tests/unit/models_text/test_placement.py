"""Which runner a family gets: our kernels for bf16 on a GPU, plain torch elsewhere, never silently.

No device is touched: a runner does nothing before it starts."""

from __future__ import annotations

import logging

import pytest
import torch

from systone.config import ModelSettings
from systone.errors import ConfigError
from systone.execute.gpu_runner import GpuRunner
from systone.execute.torch_runner import TorchRunner
from systone.models.placement import device_of, runner_of


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


def made(readouts: int = 1, **settings):
    chosen = ModelSettings(source="D", **settings)
    return runner_of(lambda _: None, chosen, longest_row=73_728, readouts=readouts)


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("device", ["auto", "cuda", "cuda:1"])
def test_bf16_on_a_gpu_runs_our_kernels(device: str) -> None:
    runner = made(device=device)
    assert isinstance(runner, GpuRunner)
    assert runner._limits.tokens == 73_728
    assert runner._settings.graphs is not None


@pytest.mark.usefixtures("cuda")
def test_a_row_of_many_read_outs_fits_whatever_the_batch_may_hold() -> None:
    runner = made(256, device="cuda", pack=False, max_batch_rows=8)
    assert runner._limits.readouts == 256
    assert runner._settings.graphs is None
    assert made(256, device="cuda")._limits.readouts == 1024


@pytest.mark.usefixtures("cuda")
def test_float32_on_a_gpu_says_that_it_runs_in_plain_torch(caplog) -> None:
    with caplog.at_level(logging.WARNING):
        runner = made(device="cuda", dtype="float32")
    assert isinstance(runner, TorchRunner)
    assert "float32 on a GPU runs in plain torch" in caplog.text


def test_a_cpu_runs_plain_torch(caplog) -> None:
    assert isinstance(made(device="cpu"), TorchRunner)
    assert caplog.text == ""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="device cuda is not available"):
        device_of("cuda")
