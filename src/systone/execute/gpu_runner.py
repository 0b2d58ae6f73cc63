"""A PassRunner on one CUDA device: own Triton kernels, cuBLASLt products where proven, one arena.

Checks itself on the device when it starts; passes run as graphs of their buckets, eagerly where
there is none. Used by one thread, on a stream of its own. R read-outs, W read-out width.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from systone.errors import ConfigError, EngineDownError
from systone.execute.base import Proofs
from systone.execute.buckets import readout_bucket, row_bucket
from systone.execute.gpu_arena import Arena, Room, arena_bytes
from systone.execute.gpu_gemm import Products
from systone.execute.gpu_head import readout_width
from systone.execute.gpu_pass import GpuPass
from systone.execute.graph_outputs import Outputs, Pending
from systone.execute.graph_passes import GraphedPasses
from systone.execute.graph_stage import PassStage, StageRoom
from systone.execute.selfcheck import Report
from systone.execute.selfcheck_alone import alone
from systone.execute.selfcheck_compiles import CompileCount
from systone.execute.selfcheck_start import StartSettings, bring_up
from systone.kernels.attention.triton import tile_tokens
from systone.kernels.config import table_of
from systone.kernels.gemm.cublaslt import exact_blas
from systone.kernels.rope.triton import rotary_table
from systone.nn.config import TextConfig
from systone.nn.decision import DecisionModel
from systone.plan.tables import PassTables

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GpuLimits:
    """The largest pass the device is set up for; the planner refuses a longer row."""

    tokens: int = 16384
    readouts: int = 1024
    states: int = 256
    segments: int = 4096
    ancestors: int = 16384


# what the self-check's own passes take
_LEAST = GpuLimits(tokens=2304, readouts=32, states=64, segments=256, ancestors=1024)


class GpuRunner:
    """Runs passes of a bf16 model that `build` places on `device` when the runner starts."""

    def __init__(
        self,
        build: Callable[[torch.device], DecisionModel],
        device: torch.device | str = "cuda",
        limits: GpuLimits | None = None,
        settings: StartSettings | None = None,
    ) -> None:
        self._build = build
        self._device = torch.device(device)
        self._limits = limits or GpuLimits()
        self._settings = settings or StartSettings()
        self._passes: GraphedPasses | None = None
        self._report: Report | None = None
        self._outputs: Outputs | None = None
        self._stream: torch.cuda.Stream | None = None
        self._compiles = CompileCount()
        self._alone = 0
        self._state: Mapping[str, Any] = {"backend": "triton", "device": str(self._device)}

    def start(self) -> None:
        """Place the model, allocate the arena, check the device, capture graphs. Raises
        ConfigError: no such device, kernels or memory."""
        if self._device.type != "cuda" or not torch.cuda.is_available():
            raise ConfigError(f"device {self._device} is not a CUDA device that is available")
        index = self._device.index
        device = torch.device("cuda", torch.cuda.current_device() if index is None else index)
        torch.cuda.set_device(device)
        try:
            self._bring_up(device)
        except torch.OutOfMemoryError as error:
            raise ConfigError(
                f"{device} has too little memory for this model and passes of "
                f"{self._limits.tokens} tokens: {str(error).splitlines()[0]}"
            ) from error
        self._compiles.begin()

    def _bring_up(self, device: torch.device) -> None:
        model = self._build(device)
        _check_model(model)
        torch.cuda.synchronize(device)  # the weights were placed on another stream
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        with self._running():
            split, stage = self._placed(model, device)
            self._passes, self._report = bring_up(split, stage, device, self._settings)
        room = split.arena.room
        self._outputs = Outputs(room.readouts, room.width)
        self._state = _description(device, split, stage)
        log.info("self-check: %s", dict(self._report.describe()))

    def _placed(self, model: DecisionModel, device: torch.device) -> tuple[GpuPass, PassStage]:
        """The model over an arena, and room for the tables of its passes."""
        config, limits = model.stack.config, self._limits
        kernels, _ = table_of(device)
        room = Room(
            row_bucket(max(limits.tokens, _LEAST.tokens)),
            readout_bucket(max(limits.readouts, _LEAST.readouts)),
            max(limits.states, _LEAST.states),
            readout_width(model),
        )
        _check_memory(config, room, device)
        angles = _all_angles(config, room.tokens, device)
        split = GpuPass.of(model, Arena(config, room, device), Products(), angles)
        tile = tile_tokens(kernels, config.num_heads, config.num_kv_heads)
        segments = max(limits.segments, _LEAST.segments)
        ancestors = max(limits.ancestors, _LEAST.ancestors)
        stage = StageRoom(room.tokens, segments, ancestors, room.readouts, tile)
        return split, PassStage(stage, device)

    def proofs(self) -> Proofs:
        return self._report.proofs if self._report else Proofs()

    def run(self, tables: PassTables) -> NDArray[np.float32]:
        """Head scores [R, W] in read-out order. Raises EngineDownError outside start and close, and
        when the device fails; EngineFaultError: a pass larger than the limits."""
        if self._report is None or self._report.passes.packing:
            return self.scores_of(self.submit(tables))
        self._alone += 1
        return np.concatenate([self.scores_of(self.submit(single)) for single in alone(tables)])

    def submit(self, tables: PassTables) -> Pending:
        """Enqueue a pass; up to two may be in flight. Raises as `run` does."""
        if self._passes is None or self._outputs is None:
            raise EngineDownError("the GPU runner is not running")
        with self._running():
            scores = self._passes.launch(tables)
            return self._outputs.send(scores[: tables.readout_token.shape[0]])

    def scores_of(self, pending: Pending) -> NDArray[np.float32]:
        """Wait for a submitted pass. Raises EngineDownError when the device failed."""
        with self._running():
            return pending.take()

    def close(self) -> None:
        self._compiles.end()
        if self._passes is not None:
            self._passes.close()
        self._passes = self._outputs = self._stream = None
        torch.cuda.empty_cache()

    @contextmanager
    def _running(self) -> Iterator[None]:
        """torch's switches and our stream around device work; a lost device is an engine down."""
        try:
            with torch.inference_mode(), exact_blas(), torch.cuda.stream(self._stream):
                yield
        except torch.AcceleratorError as lost:
            raise EngineDownError(f"device {self._device} failed: {lost}") from lost

    @property
    def head_weight(self) -> torch.Tensor:
        """FP32 on the device, rows as the model keeps them. For checks."""
        assert self._passes is not None
        return self._passes.split.model.head_weight

    def last_hidden(self, rows: int) -> torch.Tensor:
        """A copy of the last pass's final hidden states bf16 [rows, h], for checks."""
        assert self._passes is not None
        split = self._passes.split
        return split.arena.take("last_normed", rows, split.config.hidden_size).clone()

    def describe(self) -> Mapping[str, Any]:
        passes, report = self._passes, self._report
        if passes is None or report is None:
            return self._state
        return {
            **self._state,
            "products": dict(passes.split.products.describe()),
            "selfcheck": report.describe(),
            "launches": passes.describe(),
            "passes_run_row_by_row": self._alone,
            "compilations_since_ready": self._compiles.count,
        }


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


def _description(device: torch.device, split: GpuPass, stage: PassStage) -> Mapping[str, Any]:
    properties = torch.cuda.get_device_properties(device)
    room = split.arena.room
    return {
        "backend": "triton",
        "device": f"{properties.name} ({device})",
        "capability": f"{properties.major}.{properties.minor}",
        "kernels": table_of(device)[0].name,
        "dtype": "bfloat16",
        "arena_bytes": split.arena.num_bytes + stage.num_bytes,
        "pass_limits": {"tokens": room.tokens, "rows": room.readouts, "states": room.states},
        "torch": torch.__version__,
        "triton": triton.__version__,
    }
