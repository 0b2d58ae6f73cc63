"""One tiny model per layout and dtype, ours and transformers', built once a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from torch import Tensor
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5TextModel

from systone.nn.config import TextConfig
from systone.nn.decision import DecisionModel
from systone.nn.device_tables import DeviceTables
from systone.plan.tables import PassTables
from tests.unit.nn.tiny import (
    POSITION_PULL,
    Checkpoint,
    official_hidden,
    tiny_json,
    transformers_model,
)


@dataclass(frozen=True)
class Tiny:
    """A checkpoint (stored bf16), our model on it and transformers' model on it, in one dtype."""

    config: TextConfig
    ours: DecisionModel
    official: Qwen3_5TextModel

    def hidden(self, tables: PassTables) -> Tensor:
        with torch.inference_mode():
            return self.ours.stack.readouts(DeviceTables.of(tables)).float()

    def scores(self, tables: PassTables) -> Tensor:
        with torch.inference_mode():
            return self.ours.scores(DeviceTables.of(tables))

    def official_hidden(self, rows: list[list[int]]) -> Tensor:
        return official_hidden(self.official, rows).float()


@cache
def _tiny(layout: str, dtype: torch.dtype, layers: int, pull: float, wide: bool) -> Tiny:
    json = tiny_json(layout, layers=layers, wide=wide)
    config = TextConfig.from_json(json)
    checkpoint = Checkpoint.of(config, seed=1, pull=pull)
    return Tiny(
        config,
        DecisionModel.build(checkpoint, dtype=dtype),
        transformers_model(json, checkpoint.tensors, dtype),
    )


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)  # tiny products: more threads only wait for each other


@pytest.fixture(scope="session", params=["9b", "27b"])
def layout(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Tiny]:
    """`tiny(layout, dtype, layers=8, pull=POSITION_PULL, wide=False)`."""

    def make(
        layout: str,
        dtype: torch.dtype = torch.float32,
        layers: int = 8,
        pull: float = POSITION_PULL,
        wide: bool = False,
    ) -> Tiny:
        return _tiny(layout, dtype, layers, pull, wide)

    return make
