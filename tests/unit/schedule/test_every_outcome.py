"""Whatever happens in whatever order, each accepted request ends once, in order, within budget."""

from concurrent.futures import Future
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from systone.errors import CapacityError, DeadlineError, EngineDownError, EngineFaultError
from systone.models.base import Cost
from systone.schedule.budget import Batch, Budget, load_of
from systone.schedule.occupancy import DEPTH
from systone.schedule.scheduler import Scheduler
from systone.schedule.ticket import Phase, Stamps, Ticket
from tests.fakes import FakeClock

COSTS = st.builds(Cost, st.integers(0, 80), st.integers(1, 9), st.integers(0, 4))
BUDGETS = {"a": Budget(100, 12, 6, 4), "b": Budget(60, 8, 3, 2)}
MAX_QUEUE = 6


class Requests(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.clock = FakeClock()
        self.scheduler = Scheduler(BUDGETS, max_queue=MAX_QUEUE, quantum_s=0.02, clock=self.clock)
        self.scheduler.set_ready()
        self.tickets: list[Ticket] = []
        self.outcomes: dict[int, int] = {}
        self.ready_order: dict[str, list[Ticket]] = {"a": [], "b": []}
        self.batches: list[Batch] = []  # on the device, in order
        self.failed = False

    @rule(name=st.sampled_from("ab"), patience=st.one_of(st.none(), st.floats(0.1, 5.0)))
    def admit(self, name: str, patience: float | None) -> None:
        future: Future[Any] = Future()
        deadline = None if patience is None else self.clock.now + patience
        try:
            ticket = self.scheduler.admit(name, deadline=deadline, future=future, stamps=Stamps())
        except (CapacityError, EngineDownError):
            assert not future.done()
            return
        assert not self.failed
        index = len(self.tickets)
        self.tickets.append(ticket)
        self.outcomes[index] = 0
        future.add_done_callback(lambda _: self._count(index))

    def _count(self, index: int) -> None:
        self.outcomes[index] += 1

    def _pick(self, data: st.DataObject, phase: Phase) -> Ticket | None:
        found = [t for t in self.tickets if t.phase is phase]
        return data.draw(st.sampled_from(found)) if found else None

    @rule(data=st.data(), cost=COSTS)
    def prepared(self, data: st.DataObject, cost: Cost) -> None:
        ticket = self._pick(data, Phase.PREPARING)
        if ticket is not None:
            self.scheduler.ready(ticket, "work", cost)
            if ticket.phase is Phase.WAITING:
                self.ready_order[ticket.lane].append(ticket)

    @rule(data=st.data())
    def refused(self, data: st.DataObject) -> None:
        ticket = self._pick(data, Phase.PREPARING)
        if ticket is not None:
            assert self.scheduler.settle(ticket, error=EngineFaultError("bug"))

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.tickets:
            ticket = data.draw(st.sampled_from(self.tickets))
            phase = ticket.phase
            could = ticket.future.cancel()
            assert could == (phase in (Phase.PREPARING, Phase.WAITING) or ticket.future.cancelled())

    @rule(seconds=st.floats(0.0, 2.0))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def expire(self) -> None:
        self.scheduler.expire()
        for ticket in self.tickets:
            if ticket.phase in (Phase.PREPARING, Phase.WAITING):
                assert not ticket.overdue(self.clock.now)

    @rule()
    def dispatch(self) -> None:
        batch = self.scheduler.take(timeout_s=0)
        if batch is None:
            return
        assert isinstance(batch, Batch)
        assert not self.failed
        assert len(self.batches) < DEPTH
        lane, load = batch.lane, load_of(batch.tickets)
        assert BUDGETS[lane].holds(load) or len(batch.tickets) == 1
        queued = [
            t for t in self.ready_order[lane] if t in batch.tickets or t.phase is Phase.WAITING
        ]
        assert tuple(queued[: len(batch.tickets)]) == batch.tickets
        assert not any(t.overdue(self.clock.now) for t in batch.tickets)
        for ticket in batch.tickets:
            self.ready_order[lane].remove(ticket)
        self.scheduler.enqueued(batch.expected_s)
        self.batches.append(batch)

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), seconds=st.floats(0.0, 1.0))
    def complete(self, data: st.DataObject, seconds: float) -> None:
        batch = self.batches.pop(0)
        self.clock.advance(seconds)
        self.scheduler.part_done()
        self.scheduler.done(batch, seconds)
        for ticket in batch.tickets:
            bad = data.draw(st.booleans())
            error = EngineFaultError("nan", code="non_finite_output") if bad else None
            assert self.scheduler.settle(ticket, result="answer", error=error) != self.failed

    @precondition(lambda self: len(self.tickets) > 3)
    @rule(sure=st.integers(0, 9))
    def lose_the_device(self, sure: int) -> None:
        if sure == 0:
            self.scheduler.fail("device lost")
            self.failed = True

    @invariant()
    def each_request_has_at_most_one_outcome_and_the_books_agree(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        for index, ticket in enumerate(self.tickets):
            assert self.outcomes[index] == int(ticket.future.done())
            assert ticket.future.done() == (ticket.phase is Phase.SETTLED)
        tally = self.scheduler.tally()
        assert tally.admitted == len(self.tickets)
        assert sum(tally.outcomes.values()) == sum(self.outcomes.values())
        depth = self.scheduler.depth()
        undispatched = sum(t.phase in (Phase.PREPARING, Phase.WAITING) for t in self.tickets)
        assert sum(waiting for waiting, _ in depth.values()) == undispatched <= MAX_QUEUE
        running = sum(len(batch.tickets) for batch in self.batches)
        assert sum(count for _, count in depth.values()) == running

    def teardown(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        self.scheduler.drain(0)
        for index, ticket in enumerate(self.tickets):
            assert self.outcomes[index] == 1
            if not ticket.future.cancelled():
                error = ticket.future.exception(0)
                kinds = (CapacityError, DeadlineError, EngineDownError, EngineFaultError)
                assert error is None or isinstance(error, kinds)


TestRequests = Requests.TestCase
