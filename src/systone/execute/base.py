"""What runs one pass: the only interface between the planner's tables and a device.

A runner sees tables, never requests. What its start-up self-check proved decides which policies
may run. Axes: R read-outs, W read-out width. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from systone.plan.tables import PassTables


class PassRunner(Protocol):
    """Owns the weights and scratch of one model on one device; used by one thread."""

    def start(self) -> None:
        """Load, check, allocate, warm up. Raises ConfigError."""

    def run(self, tables: PassTables) -> NDArray[np.float32]:
        """Head scores [R, W] in read-out order, ready on the host.

        Any exception fails the requests of this pass; EngineDownError means the device is lost.
        """

    def close(self) -> None:
        """Release the device. Called once, also after a failure."""

    def describe(self) -> Mapping[str, Any]:
        """Modes, device and memory for `/health`; cheap and safe from any thread."""


@dataclass(frozen=True, slots=True)
class Proofs:
    """What a self-check on this very device proved bit for bit; None: not checked.

    `m_invariant`: every product of the profile gives a row the same bits whatever the number of
    rows; `sharing`: a row gives the same bits when it shares its leading segments."""

    m_invariant: bool | None = None
    sharing: bool | None = None


@runtime_checkable
class SelfChecked(Protocol):
    """A runner whose `start` checks itself. A runner without this promises no bits."""

    def proofs(self) -> Proofs:
        """Valid after `start`."""
