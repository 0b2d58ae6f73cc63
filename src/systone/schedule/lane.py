"""One model's queue: tickets in order of readiness, what they cost together, how long they take.

Not thread-safe; the scheduler holds its lock. Device seconds come from the model's own curve.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from statistics import median_low
from typing import TYPE_CHECKING

from systone.schedule.budget import Budget, Load, fill, load_of, may_run_between
from systone.schedule.curve import TimeCurve
from systone.schedule.ticket import Phase, Ticket

if TYPE_CHECKING:
    from systone.models.base import Cost

__all__ = ["Lane"]

GATHER_S = 0.02  # the longest wait for more requests to run between the parts of a long batch
GATHERED = 0.5  # of the tokens of a full batch: enough not to wait
AT_ONCE_SIZE = 4096  # characters: more are for a worker, however quick
AT_ONCE_S = 0.001  # the longest that preparing should hold up an event loop
TYPICAL_OF = 15  # requests, of whose tokens the median is typical: few large ones are not


class Lane:
    """`num_preparing`: accepted tickets whose cost isn't known yet; they count as typical ones."""

    def __init__(self, name: str, budget: Budget) -> None:
        self.name = name
        self.budget = budget
        self.curve = TimeCurve()
        self.num_preparing = 0
        self._preparing_s = TimeCurve()  # by characters
        self._waiting: OrderedDict[int, Ticket] = OrderedDict()
        self._load = Load()
        self._recent_tokens: deque[int] = deque(maxlen=TYPICAL_OF)
        self._typical_tokens = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def overflows(self) -> bool:
        """Whether more waits than a batch holds: nobody who comes later can join the next one."""
        return not self.budget.holds(self._load)

    @property
    def num_undispatched(self) -> int:
        return len(self._waiting) + self.num_preparing

    def push(self, ticket: Ticket, cost: Cost) -> None:
        """Queue a prepared ticket behind the others."""
        if ticket.size <= AT_ONCE_SIZE:
            stamps = ticket.stamps
            self._preparing_s.observe(ticket.size, stamps.prepare_end - stamps.prepare_start)
        ticket.cost = cost
        ticket.phase = Phase.WAITING
        self._waiting[id(ticket)] = ticket
        self._load = self._load.plus(cost)
        self._recent_tokens.append(cost.tokens)
        self._typical_tokens = median_low(self._recent_tokens)

    def prepares_at_once(self, size: int) -> bool:
        """Whether a request of so many characters takes no longer to prepare than an event loop may
        be held up, as those before it went."""
        return size <= AT_ONCE_SIZE and self._preparing_s.estimate(size) <= AT_ONCE_S

    def remove(self, ticket: Ticket) -> None:
        """Take a ticket out wherever it stands; costs no device work."""
        if self._waiting.pop(id(ticket), None) is not None and ticket.cost is not None:
            self._load = self._load.minus(ticket.cost)

    def front(self, *, between: bool = False) -> list[Ticket]:
        """The next batch, still queued: see `budget.fill`. `between`: one to run between the parts
        of a long batch; long requests are passed over, as they must wait for its end anyway."""
        waiting = self._waiting.values()
        return fill(may_run_between(waiting, self.budget) if between else waiting, self.budget)

    def due_between(self, now: float) -> bool:
        """Whether a batch should run now between the parts of a long one: a small pass costs more
        for each of its tokens, so requests are gathered for a while first."""
        front = self.front(between=True)
        if not front:
            return False
        gathered = load_of(front).tokens >= self.budget.tokens * GATHERED
        return gathered or now - front[0].stamps.prepare_end >= GATHER_S

    def backlog_s(self) -> float:
        """Device seconds until everything accepted so far has run."""
        if not self._waiting and not self.num_preparing:
            return 0.0
        unseen = self.num_preparing * self._typical_tokens
        load = Load(
            self._load.tokens + unseen,
            self._load.rows,
            self._load.states,
            self._load.requests + self.num_preparing,
        )
        return self.curve.estimate(load.tokens, self.budget.num_batches(load))

    def own_s(self, cost: Cost | None) -> float:
        """Device seconds of one more request: its own cost, or a typical one's before that."""
        tokens = self._typical_tokens if cost is None else cost.tokens
        return self.curve.estimate(tokens)
