"""Micro checkpoints in the official layout, written once by the real writer."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from systone.weights.synth.write import write_recipe
from tests.unit.weights.micro import SEED, micro


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Micro tensors gain nothing from threads; tests that are about threads set their own."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def micro_9b(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """base/ and package/ of a micro open-jev-9b. Never written to: tests copy it."""
    out = tmp_path_factory.mktemp("micro") / "9b"
    write_recipe(micro("open-jev-9b"), SEED, out)
    return out


@pytest.fixture
def copy_9b(micro_9b: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(micro_9b, tmp_path / "copy"))
