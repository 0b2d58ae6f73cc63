"""A PassRunner on one CUDA device: own Triton kernels, cuBLASLt products where proven, one arena.

Eager for now; every address and grid depends on the padded row counts only, so that a pass could be
captured as a graph. Used by one thread. R read-outs, W read-out width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from systone.errors import ConfigError, EngineDownError
from systone.execute.gpu_arena import Arena, Room, arena_bytes
from systone.execute.gpu_gemm import (
    Products,
    buckets_up_to,
    projections,
    readout_bucket,
    row_bucket,
)
from systone.execute.gpu_pass import GpuPass
from systone.execute.gpu_tables import TableShape, TableStage
from systone.kernels.attention.triton import tile_tokens
from systone.kernels.config import table_of
from systone.kernels.gemm.cublaslt import exact_blas
from systone.kernels.rope.triton import rotary_table
from systone.nn.config import TextConfig
from systone.nn.decision import DecisionModel
from systone.plan.tables import PassTables


@dataclass(frozen=True, slots=True)
class GpuLimits:
    """The largest pass the device is set up for; the planner refuses a longer row."""

    tokens: int = 16384
    readouts: int = 1024
    states: int = 256
    segments: int = 4096
    ancestors: int = 16384


class GpuRunner:
    """Runs passes of a bf16 model that `build` places on `device` when the runner starts.

    `exact_gemm`: "auto" proves cuBLASLt at start, "canonical" never uses it."""

    def __init__(
        self,
        build: Callable[[torch.device], DecisionModel],
        device: torch.device | str = "cuda",
        limits: GpuLimits | None = None,
        *,
        exact_gemm: str = "auto",
    ) -> None:
        if exact_gemm not in ("auto", "canonical"):
            raise ConfigError(f"exact_gemm is {exact_gemm!r}, expected 'auto' or 'canonical'")
        self._build = build
        self._device = torch.device(device)
        self._limits = limits or GpuLimits()
        self._exact_gemm = exact_gemm
        self._pass: GpuPass | None = None
        self._stage: TableStage | None = None
        self._state: Mapping[str, Any] = {"backend": "triton", "device": str(self._device)}

    def start(self) -> None:
        """Place the model, allocate the arena, prove the products. Raises ConfigError: no such
        device, kernels or memory."""
        if self._device.type != "cuda" or not torch.cuda.is_available():
            raise ConfigError(f"device {self._device} is not a CUDA device that is available")
        torch.cuda.set_device(self._device)
        device = torch.device("cuda", torch.cuda.current_device())
        kernels, _ = table_of(device)
        model = self._build(device)
        config = model.stack.config
        _check_model(model)
        room = Room(
            row_bucket(self._limits.tokens),
            readout_bucket(self._limits.readouts),
            self._limits.states,
        )
        _check_memory(config, room, device)
        products = Products()
        with torch.inference_mode():
            arena = Arena(config, room, device)
            angles = _all_angles(config, room.tokens, device)
            if self._exact_gemm == "auto":
                queries = 2 * config.num_heads * config.head_dim
                tails = [8 << n for n in range(room.readouts.bit_length() - 3)]
                rows = sorted({*buckets_up_to(room.tokens), *tails})
                products.prove(projections(model.stack.weights, queries), rows)
        shape = TableShape(
            room.tokens,
            self._limits.segments,
            self._limits.ancestors,
            room.readouts,
            tile_tokens(kernels, config.num_heads, config.num_kv_heads),
        )
        self._stage = TableStage(shape, device)
        self._pass = GpuPass(model, arena, products, angles)
        self._state = _description(device, kernels.name, arena, self._stage, products)

    def run(self, tables: PassTables) -> NDArray[np.float32]:
        """Head scores [R, W] in read-out order. Raises EngineDownError outside start and close, and
        when the device fails; EngineFaultError: a pass larger than the limits."""
        if self._pass is None or self._stage is None:
            raise EngineDownError("the GPU runner is not running")
        rows = tables.readout_token.shape[0]
        try:
            with torch.inference_mode(), exact_blas():
                staged = self._stage.load(
                    tables, row_bucket(tables.num_tokens), readout_bucket(rows)
                )
                scores = self._pass.launch(staged)
                return np.asarray(scores[:rows].cpu().numpy())
        except torch.AcceleratorError as lost:
            raise EngineDownError(f"device {self._device} failed: {lost}") from lost

    def close(self) -> None:
        self._pass = None
        self._stage = None
        torch.cuda.empty_cache()

    @property
    def head_weight(self) -> torch.Tensor:
        """FP32 [1, h] on the device. For checks."""
        assert self._pass is not None
        return self._pass.model.head_weight

    def last_hidden(self, rows: int) -> torch.Tensor:
        """A copy of the last pass's final hidden states bf16 [rows, h], for checks."""
        assert self._pass is not None
        return self._pass.arena.take("last_normed", rows, self._pass.config.hidden_size).clone()

    def describe(self) -> Mapping[str, Any]:
        return self._state


def _check_model(model: DecisionModel) -> None:
    if model.stack.dtype != torch.bfloat16:
        raise ConfigError(f"the GPU kernels serve bf16 weights, these are {model.stack.dtype}")
    config = model.stack.config
    if (config.linear_key_dim, config.linear_value_dim) != (128, 128):
        raise ConfigError("config.json: the GPU kernels are for linear heads of 128")


def _check_memory(config: TextConfig, room: Room, device: torch.device) -> None:
    needed = arena_bytes(config, room, device)
    free, _ = torch.cuda.mem_get_info(device)
    if needed > free:
        raise ConfigError(
            f"passes of {room.tokens} tokens, {room.readouts} rows and {room.states} states need "
            f"{needed / 2**30:.2f} GiB beside the weights; {free / 2**30:.2f} GiB are free"
        )


def _all_angles(config: TextConfig, positions: int, device: torch.device) -> torch.Tensor:
    cos, sin = rotary_table(
        torch.arange(positions, dtype=torch.int32, device=device),
        theta=config.rope_theta,
        rotary_dim=config.rotary_dim,
        sections=config.mrope_section,
        dtype=torch.bfloat16,
    )
    return torch.cat([cos, sin], dim=1)


def _description(
    device: torch.device, kernels: str, arena: Arena, stage: TableStage, products: Products
) -> Mapping[str, Any]:
    properties = torch.cuda.get_device_properties(device)
    return {
        "backend": "triton",
        "device": f"{properties.name} ({device})",
        "capability": f"{properties.major}.{properties.minor}",
        "kernels": kernels,
        "dtype": "bfloat16",
        "products": dict(products.describe()),
        "arena_bytes": arena.num_bytes + stage.num_bytes,
        "pass_limits": {
            "tokens": arena.room.tokens,
            "rows": arena.room.readouts,
            "states": arena.room.states,
        },
        "torch": torch.__version__,
        "triton": triton.__version__,
    }
