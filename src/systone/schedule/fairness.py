"""Which model runs next: deficit round-robin over models, weighed in device seconds.

A model with work gets `quantum_s` of credit a round and runs while it has any; what a batch really
took is charged afterwards, so one long batch is paid for with rounds of waiting. Over any stretch
in which two models both have work, their device times differ by at most a quantum and one batch
each. Knows names and seconds only; not thread-safe.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

__all__ = ["DeficitRoundRobin"]


class DeficitRoundRobin:
    """`names` in round order."""

    def __init__(self, names: Sequence[str], quantum_s: float) -> None:
        self._names = tuple(names)
        self._quantum_s = quantum_s
        self._credit_s = dict.fromkeys(names, 0.0)
        self._turn = 0

    def choose(self, waiting: Collection[str]) -> str | None:
        """The model to run now, among those with work; None if there are none."""
        if not waiting:
            return None
        current = self._names[self._turn]
        if current in waiting and self._credit_s[current] > 0.0:
            return current
        self._skip_rounds(waiting)
        while True:
            self._turn = (self._turn + 1) % len(self._names)
            name = self._names[self._turn]
            self._grant(name, 1, name in waiting)
            if name in waiting and self._credit_s[name] > 0.0:
                return name

    def charge(self, name: str, seconds: float) -> None:
        """A batch of this model held the device for `seconds`."""
        self._credit_s[name] -= seconds

    def _grant(self, name: str, rounds: int, waits: bool) -> None:
        """Credit of `rounds` rounds. A model without work repays its debt but saves nothing up."""
        credit = self._credit_s[name] + rounds * self._quantum_s
        self._credit_s[name] = credit if waits else min(credit, 0.0)

    def _skip_rounds(self, waiting: Collection[str]) -> None:
        """Grant at once the whole rounds in which nobody with work could have run yet."""
        debt_s = min(-self._credit_s[name] for name in waiting)
        rounds = math.floor(debt_s / self._quantum_s)
        if rounds > 0:
            for name in self._names:
                self._grant(name, rounds, name in waiting)
