"""A pass in plain torch: the semantic reference, on a CPU or a CUDA device, FP32 or bf16.

Owns one model on one device and is used by one thread. Eager, no graphs, no padding. Rows agree
with any other batch to rounding, not to the bit: matrix products of torch may depend on the number
of rows. Axes: R read-outs, W read-out width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from systone.errors import ConfigError, EngineDownError
from systone.nn.decision import DecisionModel
from systone.nn.device_tables import DeviceTables
from systone.plan.tables import PassTables


class TorchRunner:
    """Runs passes of a model that `build` places on `device` when the runner starts."""

    def __init__(
        self, build: Callable[[torch.device], DecisionModel], device: torch.device | str = "cpu"
    ) -> None:
        self._build = build
        self._device = torch.device(device)
        self._model: DecisionModel | None = None
        self._state: Mapping[str, Any] = {"backend": "torch", "device": str(self._device)}

    @classmethod
    def of(cls, model: DecisionModel) -> TorchRunner:
        """A runner of a model that is on its device already."""
        return cls(lambda _: model, model.stack.device)

    def start(self) -> None:
        """Place the model. Raises ConfigError: no such device, or weights that don't fit it."""
        if self._device.type == "cuda" and not torch.cuda.is_available():
            raise ConfigError(f"device {self._device} is not available")
        model = self._build(self._device)
        if model.stack.device.type != self._device.type:
            raise ConfigError(f"the model is on {model.stack.device}, not on {self._device}")
        self._model = model
        self._state = {
            **self._state,
            "dtype": str(model.stack.dtype).removeprefix("torch."),
            "operators": dict(model.stack.ops.describe()),
            "torch": torch.__version__,
        }

    def run(self, tables: PassTables) -> NDArray[np.float32]:
        """Head scores [R, W] in read-out order. Raises EngineDownError outside start and close,
        and when the device itself fails."""
        if self._model is None:
            raise EngineDownError("the torch runner is not running")
        try:
            with torch.inference_mode(), exact_products(self._device):
                return np.asarray(
                    self._model.scores(DeviceTables.of(tables, self._device)).cpu().numpy()
                )
        except torch.AcceleratorError as lost:
            raise EngineDownError(f"device {self._device} failed: {lost}") from lost

    def close(self) -> None:
        self._model = None
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def describe(self) -> Mapping[str, Any]:
        return self._state


@contextmanager
def exact_products(device: torch.device) -> Iterator[None]:
    """FP32 products in FP32 and bf16 sums in FP32, for our calls only.

    torch's switches are process-wide: they are put back, and a CPU run leaves them alone."""
    if device.type != "cuda":
        yield
        return
    flags = torch.backends.cuda.matmul
    before = flags.allow_tf32, flags.allow_bf16_reduced_precision_reduction
    flags.allow_tf32, flags.allow_bf16_reduced_precision_reduction = False, False
    try:
        yield
    finally:
        flags.allow_tf32, flags.allow_bf16_reduced_precision_reduction = before
