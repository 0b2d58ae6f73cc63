"""Runs a marker encoder for whole requests on one device, so that a row's bits are its own.

Owns how rows are grouped: on a CPU, and wherever matrix products may depend on their number of
rows, one row a forward; on a GPU with bf16 weights, rows laid end to end through the canonical
product, whose bits don't depend on it. Knows no prompts and no probabilities. N options.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from systone.errors import ConfigError, EngineDownError, EngineFaultError
from systone.execute.torch_runner import exact_products
from systone.models.base import Executor, Prepared, Readout
from systone.models.laya.rows import MarkerRow
from systone.nn.encoder import Product
from systone.nn.encoder_config import EncoderConfig, MarkerConfig
from systone.nn.encoder_head import MarkerEncoder, Rows
from systone.nn.encoder_weights import build

__all__ = ["EncoderExecutor"]

log = logging.getLogger(__name__)

_Placed = tuple[int, MarkerRow]  # request of the batch, its row
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class EncoderExecutor(Executor[Prepared]):
    """`read` gives a stored tensor by name; `longest` bounds a row and `max_tokens` a packed
    forward, in tokens. `device` and `dtype` are settings' words, `auto` among them."""

    def __init__(
        self,
        body: EncoderConfig,
        head: MarkerConfig,
        read: Callable[[str], torch.Tensor],
        *,
        device: str = "auto",
        dtype: str = "auto",
        longest: int,
        max_tokens: int,
    ) -> None:
        self._device = _device(device)
        self._dtype = _dtype(dtype, self._device)
        self._packs = self._device.type == "cuda" and self._dtype == torch.bfloat16
        self._max_tokens = max_tokens if self._packs else 1
        self._body, self._head, self._read, self._longest = body, head, read, longest
        self._model: MarkerEncoder | None = None
        self._forwards = 0

    def start(self) -> None:
        """Place the model. Raises ConfigError when it doesn't fit the device."""
        try:
            self._model = build(
                self._body,
                self._head,
                self._read,
                dtype=self._dtype,
                device=self._device,
                product=_canonical_product() if self._packs else _plain_product,
                longest=self._longest,
            )
        except torch.OutOfMemoryError:
            raise ConfigError(f"the model doesn't fit on {self._device}") from None

    def execute(self, batch: Sequence[Prepared]) -> Sequence[Readout | Exception]:
        """A failing forward fails the requests in it; a failing device raises EngineDownError."""
        model = self._model
        if model is None:
            raise EngineDownError("the encoder is not started")
        parts: list[list[np.ndarray[Any, Any]]] = [[] for _ in batch]
        errors: dict[int, Exception] = {}
        for group in self._groups(batch):
            try:
                for (request, _), logits in zip(group, self._forward(model, group), strict=True):
                    parts[request].append(logits)
            except torch.AcceleratorError as lost:
                raise EngineDownError(f"device {self._device} failed: {lost}") from lost
            except Exception as error:
                log.exception("a forward of %d rows failed", len(group))
                fault = EngineFaultError(f"the forward failed: {type(error).__name__}")
                errors |= dict.fromkeys((request for request, _ in group), fault)
        return [
            errors[i] if i in errors else Readout(np.concatenate(parts[i]).reshape(-1, 1))
            for i in range(len(batch))
        ]

    def close(self) -> None:
        self._model = None
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def describe(self) -> Mapping[str, Any]:
        return {
            "backend": "torch",
            "device": str(self._device),
            "dtype": str(self._dtype).removeprefix("torch."),
            "rows": "packed" if self._max_tokens > 1 else "one a forward",
            "forwards": self._forwards,
            "torch": torch.__version__,
        }

    def _groups(self, batch: Sequence[Prepared]) -> Iterator[list[_Placed]]:
        """Rows in order, as many a forward as the budget holds and at least one."""
        group: list[_Placed] = []
        tokens = 0
        for request, prepared in enumerate(batch):
            for row in prepared.work:
                if group and tokens + len(row.ids) > self._max_tokens:
                    yield group
                    group, tokens = [], 0
                group.append((request, row))
                tokens += len(row.ids)
        if group:
            yield group

    def _forward(
        self, model: MarkerEncoder, group: Sequence[_Placed]
    ) -> list[np.ndarray[Any, Any]]:
        """FP32 logits [k] of each row."""
        rows = [row for _, row in group]
        with torch.inference_mode(), exact_products(self._device):
            logits = model.logits(_laid(rows, self._device)).cpu().numpy()
        self._forwards += 1
        return list(np.split(logits, np.cumsum([len(row.markers) for row in rows])[:-1]))


def _laid(rows: Sequence[MarkerRow], device: torch.device) -> Rows:
    """Rows end to end on the device."""
    lengths = [len(row.ids) for row in rows]
    starts = np.cumsum([0, *lengths[:-1]])
    ids = np.concatenate([row.ids for row in rows])
    markers = np.concatenate([row.markers + start for row, start in zip(rows, starts, strict=True)])
    return Rows(
        ids=torch.from_numpy(ids).to(device),
        lengths=tuple(lengths),
        markers=torch.from_numpy(markers).to(device),
        num_markers=tuple(len(row.markers) for row in rows),
        kinds=tuple(row.kind for row in rows),
    )


def _plain_product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return functional.linear(x, weight)


def _canonical_product() -> Product:
    try:
        from systone.kernels.gemm.triton import linear
    except ImportError as missing:
        raise ConfigError(
            f"bf16 on a GPU needs Triton; install systone[gpu], or say --dtype float32 ({missing})"
        ) from None
    product: Product = linear
    return product


def _device(name: str) -> torch.device:
    available = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if available else "cpu")
    if name.startswith("cuda") and not available:
        raise ConfigError(f"device {name} is not available")
    return torch.device(name)


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return _DTYPES[name]
