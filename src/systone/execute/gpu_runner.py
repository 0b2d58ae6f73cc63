"""A PassRunner on one CUDA device: own Triton kernels, cuBLASLt products where proven, one arena.

Checks itself on the device when it starts; passes run as graphs of their buckets, eagerly where
there is none. One thread enqueues, on the device's one stream; what it enqueued any thread may
wait for. R read-outs, W read-out width.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from systone.errors import ConfigError, EngineDownError
from systone.execute.base import Proofs
from systone.execute.buckets import readout_bucket, row_bucket
from systone.execute.gpu_arena import Arena, Room, arena_bytes, beside_bytes, state_bytes
from systone.execute.gpu_clock import GpuClock
from systone.execute.gpu_gemm import Products
from systone.execute.gpu_head import readout_width
from systone.execute.gpu_launch import GpuLaunch
from systone.execute.gpu_memory import MemoryPlan, MemoryWatch, weight_bytes, with_torch_peak
from systone.execute.gpu_pace import CURVE, measured_curve
from systone.execute.gpu_pass import GpuPass
from systone.execute.gpu_switches import Switches
from systone.execute.graph_outputs import Outputs
from systone.execute.graph_passes import GraphedPasses
from systone.execute.graph_stage import PassStage, StageRoom, stage_bytes
from systone.execute.selfcheck import Report
from systone.execute.selfcheck_alone import alone
from systone.execute.selfcheck_compiles import CompileCount
from systone.execute.selfcheck_start import StartSettings, bring_up
from systone.kernels.attention.triton import short_tile_tokens, tile_tokens
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
_LEAST = GpuLimits(tokens=2304, readouts=64, states=64, segments=256, ancestors=1024)


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
        self._switches: Switches | None = None
        self._compiles = CompileCount()
        self._clock = GpuClock()
        self.pass_seconds: Mapping[int, float] = {}
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
        self._device = device
        try:
            self._bring_up(device)
        except torch.OutOfMemoryError as error:
            raise ConfigError(
                f"{device} has too little memory for this model and passes of "
                f"{self._limits.tokens} tokens: {str(error).splitlines()[0]}"
            ) from error
        self._compiles.begin()

    def _bring_up(self, device: torch.device) -> None:
        watch = MemoryWatch(device)
        model = self._build(device)
        _check_model(model)
        torch.cuda.synchronize(device)  # the weights were placed on another stream
        torch.cuda.empty_cache()
        self._stream = stream_of(device)
        self._switches = Switches(self._stream)
        with self._switches, exact_blas():
            split, stage, plan = self._placed(model, device, watch)
            watch.free()
            passes, self._report = bring_up(split, stage, device, self._settings)
            self.pass_seconds = measured_curve(
                passes, model.stack.config.vocab_size, min(CURVE[-1], self._limits.tokens)
            )
        room = split.arena.room
        self._outputs = Outputs(room.readouts, room.width, self._stream)
        self._state = {
            **_description(device, split, stage),
            "memory": watch.settled(plan, passes.graph_bytes),
            "pass_ms": {str(n): round(1e3 * s, 3) for n, s in self.pass_seconds.items()},
        }
        self._passes = passes
        log.info("self-check: %s", dict(self._report.describe()))
        log.info("memory: %s", self._state["memory"])

    def _placed(
        self, model: DecisionModel, device: torch.device, watch: MemoryWatch
    ) -> tuple[GpuPass, PassStage, MemoryPlan]:
        """The model over an arena, and room for the tables of its passes. Raises ConfigError if
        the device hasn't the memory."""
        config, limits = model.stack.config, self._limits
        kernels, _ = table_of(device)
        room = Room(
            row_bucket(max(limits.tokens, _LEAST.tokens)),
            readout_bucket(max(limits.readouts, _LEAST.readouts)),
            max(limits.states, _LEAST.states),
            readout_width(model),
        )
        heads = (config.num_heads, config.num_kv_heads)
        tiles = (tile_tokens(kernels, *heads), short_tile_tokens(kernels, *heads))
        segments = max(limits.segments, _LEAST.segments)
        ancestors = max(limits.ancestors, _LEAST.ancestors)
        tables = StageRoom(room.tokens, segments, ancestors, room.readouts, *tiles)
        states = state_bytes(config, room.states)
        plan = MemoryPlan(
            weights=weight_bytes((model.stack.weights, model)),
            arena=arena_bytes(config, room, device) - states,
            states=states,
            beside=beside_bytes(config, room.tokens),
            tables=2 * stage_bytes(tables) + room.tokens * config.rotary_dim * 2,
        )
        plan.require_fit(
            watch.free(), watch.total,
            f"{room.tokens} tokens, {room.readouts} read-outs and {room.states} forked states",
        )  # fmt: skip
        angles = _all_angles(config, room.tokens, device)
        split = GpuPass.of(model, Arena(config, room, device), Products(), angles)
        return split, PassStage(tables, device, self._stream), plan

    def proofs(self) -> Proofs:
        return self._report.proofs if self._report else Proofs()

    def run(self, tables: PassTables) -> NDArray[np.float32]:
        """Head scores [R, W] in read-out order. Raises EngineDownError outside start and close, and
        when the device fails; EngineFaultError: a pass larger than the limits."""
        return self.submit(tables).take()

    def submit(self, tables: PassTables) -> GpuLaunch:
        """Enqueue a whole pass; others may follow before its scores are taken. Raises as `run`."""
        launch = self.begin(tables)
        while launch.enqueue():
            pass
        return launch

    def begin(self, tables: PassTables) -> GpuLaunch:
        """A pass to be enqueued part by part. Raises EngineDownError outside start and close."""
        passes, outputs, report = self._passes, self._outputs, self._report
        switches = self._switches
        if passes is None or outputs is None or report is None or switches is None:
            raise EngineDownError("the GPU runner is not running")
        apart = [tables]
        if not report.passes.packing:
            self._alone += 1
            apart = list(alone(tables))
        return GpuLaunch(passes, outputs, self._clock, apart, switches, switches.stream)

    @property
    def pass_tokens(self) -> int:
        """The tokens of the largest pass."""
        return max(self._limits.tokens, _LEAST.tokens)

    @property
    def whole_tokens(self) -> int:
        """A pass of more tokens is enqueued in several parts."""
        long = self._passes.long if self._passes is not None else None
        return self.pass_tokens if long is None else long.beyond

    def close(self) -> None:
        self._compiles.end()
        if self._stream is not None:
            with suppress(torch.AcceleratorError):  # a lost device has nothing left to wait for
                self._stream.synchronize()
        if self._passes is not None:
            self._passes.close()
        self._passes = self._outputs = self._stream = self._switches = None
        gc.collect()  # graphs and their stores refer to each other
        torch.cuda.empty_cache()

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
            "device_time": self._clock.describe(),
            "memory": with_torch_peak(self._state["memory"], self._device),
            "passes_run_row_by_row": self._alone,
            "compilations_since_ready": self._compiles.count,
        }


def _check_model(model: DecisionModel) -> None:
    if model.stack.dtype != torch.bfloat16:
        raise ConfigError(f"the GPU kernels serve bf16 weights, these are {model.stack.dtype}")
    config = model.stack.config
    if (config.linear_key_dim, config.linear_value_dim) != (128, 128):
        raise ConfigError("config.json: the GPU kernels are for linear heads of 128")


@cache
def stream_of(device: torch.device) -> torch.cuda.Stream:
    """The one stream of a device, so that passes of several models run in the order enqueued."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


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
