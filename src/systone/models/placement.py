"""Where a directory's model runs, on which runner, and when it was made: what every family's
loader asks.

Needs torch, and only inside its functions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from systone.errors import ConfigError
from systone.plan import PassBudget

if TYPE_CHECKING:
    import torch

    from systone.config import ModelSettings
    from systone.execute.base import PassRunner
    from systone.nn.decision import DecisionModel

__all__ = ["LoggedProgress", "budget_of", "device_of", "dtype_of", "runner_of", "written"]

log = logging.getLogger(__name__)

_PROGRESS_S = 5.0  # a line in the log at most this often


def device_of(name: str) -> torch.device:
    """The device a setting names. Raises ConfigError: there is none such."""
    import torch

    available = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if available else "cpu")
    if name.startswith("cuda") and not available:
        raise ConfigError(f"device {name} is not available")
    return torch.device(name)


def dtype_of(name: str, device: torch.device) -> torch.dtype:
    """`auto`: bfloat16 on a GPU, float32 on a CPU."""
    import torch

    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return torch.float32 if name == "float32" else torch.bfloat16


def budget_of(settings: ModelSettings) -> PassBudget:
    """What one pass may hold; `--pack off` runs row by row."""
    return PassBudget(
        tokens=settings.max_batch_tokens,
        rows=settings.max_batch_rows if settings.pack else 1,
        states=settings.max_batch_states,
    )


def runner_of(
    build: Callable[[torch.device], DecisionModel],
    settings: ModelSettings,
    *,
    longest_row: int,
    readouts: int = 1,
) -> PassRunner:
    """Our kernels for bf16 on a GPU, plain torch elsewhere; `describe` says which. `--pack off` is
    eager: no graphs. `longest_row`: in tokens; `readouts`: the most that one row may have.

    Raises ConfigError: a GPU without triton."""
    import torch

    device = device_of(settings.device)
    if device.type != "cuda" or dtype_of(settings.dtype, device) != torch.bfloat16:
        from systone.execute.torch_runner import TorchRunner

        if device.type == "cuda":
            log.warning("float32 on a GPU runs in plain torch, without our kernels or graphs")
        return TorchRunner(build, device)
    try:
        from systone.execute.gpu_runner import GpuLimits, GpuRunner
        from systone.execute.graph_passes import GraphSettings
        from systone.execute.selfcheck_start import StartSettings
    except ImportError as missing:
        raise ConfigError(f"a GPU needs triton; install systone[gpu] ({missing})") from None
    segments = max(settings.max_batch_tokens, 1024)
    limits = GpuLimits(
        tokens=max(settings.max_batch_tokens, longest_row),
        readouts=max(settings.max_batch_rows, readouts),
        states=settings.max_batch_states,
        segments=segments,
        ancestors=4 * segments,
    )
    if not settings.pack:
        return GpuRunner(build, device, limits, StartSettings(graphs=None, whole_s=None))
    graphs = GraphSettings(tokens=settings.graph_tokens or settings.max_batch_tokens)
    start = StartSettings(graphs, whole_s=settings.max_whole_s)
    return GpuRunner(build, device, limits, start)


def written(directory: Path) -> str:
    """The day the directory's files were written: packages carry no release date."""
    return time.strftime("%Y-%m-%d", time.gmtime(directory.stat().st_mtime))


class LoggedProgress:
    """Long steps of a load as lines of a log."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._next = time.monotonic() + _PROGRESS_S

    def __call__(self, step: str, done: int, total: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PROGRESS_S
            self._log.info("%s: %d of %d MiB", step, done >> 20, total >> 20)
