"""What happened to requests and batches since start, as plain numbers for metrics and tests.

Every admitted request is counted in exactly one of answered, failed, expired, cancelled.
Not thread-safe; the scheduler holds its lock.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from systone.errors import CapacityError, DeadlineError, EngineFaultError, RequestError
from systone.schedule.budget import Load

__all__ = ["CANCELLED", "LaneTally", "Tally", "outcome_of"]

CANCELLED = "cancelled"  # the caller left before dispatch


@dataclass(slots=True)
class LaneTally:
    """Device work of one model: batches, requests and tokens in them, seconds on the device."""

    batches: int = 0
    requests: int = 0
    tokens: int = 0
    device_s: float = 0.0

    def add(self, load: Load, seconds: float) -> None:
        self.batches += 1
        self.requests += load.requests
        self.tokens += load.tokens
        self.device_s += seconds


@dataclass(slots=True)
class Tally:
    """`outcomes` by name; `refused` by reason for those never admitted."""

    admitted: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    lanes: dict[str, LaneTally] = field(default_factory=dict)

    def copy(self) -> Tally:
        lanes = {
            name: LaneTally(lane.batches, lane.requests, lane.tokens, lane.device_s)
            for name, lane in self.lanes.items()
        }
        return Tally(self.admitted, Counter(self.outcomes), Counter(self.refused), lanes)


def outcome_of(error: BaseException | None) -> str:
    """The name an outcome is counted under."""
    if error is None:
        return "answered"
    if isinstance(error, DeadlineError):
        return "expired"
    if isinstance(error, CapacityError):
        return "refused_after_prepare"
    if isinstance(error, RequestError):
        return "invalid"
    if isinstance(error, EngineFaultError):
        return error.code
    return "engine_down"
