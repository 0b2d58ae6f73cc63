"""Where a directory's model runs and when it was made: what every family's loader asks.

Needs torch, and only inside its functions.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

from systone.errors import ConfigError
from systone.plan import PassBudget

if TYPE_CHECKING:
    import torch

    from systone.config import ModelSettings

__all__ = ["LoggedProgress", "budget_of", "device_of", "dtype_of", "written"]

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
