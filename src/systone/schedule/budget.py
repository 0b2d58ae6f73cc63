"""What one device batch may hold, and how a queue fills it: whole requests, in order.

Units: tokens computed once, scored rows, forked recurrent states, requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from systone.schedule.ticket import Ticket

if TYPE_CHECKING:
    from systone.models.base import Cost

__all__ = ["Batch", "Budget", "Load", "fill", "load_of", "may_run_between"]


@dataclass(frozen=True, slots=True)
class Load:
    """The summed cost of some requests."""

    tokens: int = 0
    rows: int = 0
    states: int = 0
    requests: int = 0

    def plus(self, cost: Cost) -> Load:
        return Load(
            self.tokens + cost.tokens,
            self.rows + cost.rows,
            self.states + cost.states,
            self.requests + 1,
        )

    def minus(self, cost: Cost) -> Load:
        return Load(
            self.tokens - cost.tokens,
            self.rows - cost.rows,
            self.states - cost.states,
            self.requests - 1,
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """Upper bounds of one batch. A request above them on its own runs alone: it was accepted, so
    its model can run it (the executor cuts it into passes). A batch of more than `whole_tokens`
    runs in parts, and batches of at most so many run in between."""

    tokens: int
    rows: int
    states: int
    requests: int
    whole_tokens: int | None = None

    def whole(self, cost: Cost) -> bool:
        """Whether a request of this cost may run between the parts of another."""
        return self.whole_tokens is None or cost.tokens <= self.whole_tokens

    def holds(self, load: Load) -> bool:
        return (
            load.tokens <= self.tokens
            and load.rows <= self.rows
            and load.states <= self.states
            and load.requests <= self.requests
        )

    def num_batches(self, load: Load) -> int:
        """The fewest batches that could hold this load."""
        return max(
            -(-load.tokens // self.tokens),
            -(-load.rows // self.rows),
            -(-load.states // self.states),
            -(-load.requests // self.requests),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Whole requests of one model for one device call, in queue order, sent at `started` and
    expected to hold the device for `expected_s`."""

    lane: str
    tickets: tuple[Ticket, ...]
    load: Load
    started: float
    expected_s: float = 0.0


def fill(waiting: Iterable[Ticket], budget: Budget) -> list[Ticket]:
    """The longest run from the front that the budget holds, at least one ticket if there is any.

    It stops at the first that doesn't fit, so nobody is overtaken by a smaller request."""
    taken: list[Ticket] = []
    load = Load()
    for ticket in waiting:
        larger = load.plus(_cost(ticket))
        if taken and not budget.holds(larger):
            break
        taken.append(ticket)
        load = larger
    return taken


def load_of(tickets: Iterable[Ticket]) -> Load:
    """The summed cost of prepared tickets."""
    load = Load()
    for ticket in tickets:
        load = load.plus(_cost(ticket))
    return load


def may_run_between(tickets: Iterable[Ticket], budget: Budget) -> list[Ticket]:
    """Those of a queue that may run between the parts of a long batch, in order."""
    return [ticket for ticket in tickets if budget.whole(_cost(ticket))]


def _cost(ticket: Ticket) -> Cost:
    if ticket.cost is None:
        raise AssertionError("a ticket has its cost before it waits")
    return ticket.cost
