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
        """Head scores [R, W] in read-out order, ready on the host, in an array of their own.

        Any exception fails the requests of this pass; EngineDownError means the device is lost.
        """

    def close(self) -> None:
        """Release the device. Called once, also after a failure."""

    def describe(self) -> Mapping[str, Any]:
        """Modes, device and memory for `/health`; cheap and safe from any thread."""


class Launch(Protocol):
    """A pass on its way through the device, in parts. One thread enqueues; another may wait."""

    seconds: float  # of the device, in the parts waited for

    def enqueue(self) -> bool:
        """Enqueue the next part; False if it was the last. Raises as `PassRunner.run`."""

    def done(self) -> bool:
        """Whether `wait` would return at once; on the thread that would wait."""

    def wait(self) -> None:
        """Until the next enqueued part is done; called once for each. Raises EngineDownError."""

    def take(self) -> NDArray[np.float32]:
        """The scores, once every part has been enqueued; waits for what wasn't waited for."""


@runtime_checkable
class OverlappingRunner(PassRunner, Protocol):
    """A runner that can be given the next pass before it is done with one. The properties are
    valid after `start`."""

    def begin(self, tables: PassTables) -> Launch:
        """A pass of which nothing is enqueued yet. Raises EngineDownError."""

    @property
    def pass_tokens(self) -> int:
        """The tokens of the largest pass."""

    @property
    def whole_tokens(self) -> int:
        """A pass of more tokens has several parts. While one is enqueued in part, passes of at most
        so many may be, and no other."""

    @property
    def pass_seconds(self) -> Mapping[int, float]:
        """Measured device time by tokens."""


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
