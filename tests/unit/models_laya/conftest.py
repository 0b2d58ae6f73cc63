"""A tiny synthetic checkpoint, written once, and the model loaded from it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from systone.config import ModelSettings
from systone.models.base import Loaded
from systone.models.laya import load_directory
from systone.weights.synth.laya import synthesize_laya


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # several would wait for each other on a busy machine
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthesize_laya("tiny", 3, tmp_path_factory.mktemp("laya") / "tiny")


@pytest.fixture(scope="session")
def load(checkpoint: Path) -> Callable[..., Loaded]:
    """The checkpoint under these settings, not started."""

    def loaded(directory: Path = checkpoint, **settings: Any) -> Loaded:
        return load_directory(directory, ModelSettings(device="cpu", **settings))

    return loaded


@pytest.fixture(scope="session")
def model(load: Callable[..., Loaded]) -> Iterator[Loaded]:
    made = load()
    made.executor.start()
    yield made
    made.executor.close()
