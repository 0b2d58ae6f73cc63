"""The state of every accepted request, under one lock, and the one place that settles futures.

    admit -> PREPARING -> ready -> WAITING -> take -> RUNNING -> settle -> SETTLED

Thread-safe. Callers admit and cancel, workers report ready, the device thread takes batches,
anyone settles; `settle` alone resolves a future, once, outside the lock. Knows no model and no
answer: costs, names, futures and outcomes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from systone.errors import DeadlineError, EngineDownError, SystoneError
from systone.schedule.admission import Admission
from systone.schedule.bell import Bell, Errand
from systone.schedule.budget import Batch, Budget, load_of
from systone.schedule.fairness import DeficitRoundRobin
from systone.schedule.health import Condition, Status
from systone.schedule.lane import Lane
from systone.schedule.occupancy import RESUME, Occupancy, Resume
from systone.schedule.tally import CANCELLED, LaneTally, Tally, outcome_of
from systone.schedule.ticket import Phase, Stamps, Ticket

if TYPE_CHECKING:
    from systone.models.base import Cost

__all__ = ["Scheduler"]

UNDISPATCHED = (Phase.PREPARING, Phase.WAITING)


class Scheduler:
    """`budgets` by model name; `max_queue` accepted requests may be undispatched at a time."""

    def __init__(
        self,
        budgets: Mapping[str, Budget],
        *,
        max_queue: int,
        quantum_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._lanes = {name: Lane(name, budget) for name, budget in budgets.items()}
        self._admission = Admission(self._lanes, max_queue, quantum_s)
        self._turns = DeficitRoundRobin(tuple(budgets), quantum_s)
        self._clock = clock
        self._lock = threading.Lock()
        self._bell = Bell(clock)  # for the device thread, rung with the lock released
        self._resumable = False  # whether the device thread sleeps with a long batch half enqueued
        self._all_settled = threading.Condition(self._lock)
        self._condition = Condition()
        self._open: set[Ticket] = set()
        self._running: list[Batch] = []  # handed to the device and not done, in order
        self._occupied = Occupancy()
        self._resume_next = False
        self._stopped = False
        self._tally = Tally(lanes={name: LaneTally() for name in budgets})

    # What callers and workers do.

    def require_room(self) -> None:
        """Raises what `admit` would raise for any request: a cheap look before parsing one."""
        with self._lock:
            self._require_room()

    def admit(
        self,
        name: str,
        *,
        deadline: float | None,
        future: Future[Any],
        stamps: Stamps,
        size: int = 0,
    ) -> Ticket:
        """Accept a request for a model, or raise EngineDownError, CapacityError, DeadlineError.

        From here on the future gets exactly one outcome. Cancelling it before dispatch takes the
        request out at no device cost. `size`: characters, see `Ticket.at_once`."""
        ticket = Ticket(name, deadline, future, stamps, size=size)
        with self._lock:
            self._require_room()
            lane = self._lanes[name]
            try:
                self._require_in_time(lane, None, deadline)
            except SystoneError:
                self._tally.refused["deadline"] += 1
                raise
            lane.num_preparing += 1
            ticket.at_once = not self._open and lane.prepares_at_once(size)
            self._open.add(ticket)
            self._tally.admitted += 1
        future.add_done_callback(lambda done: self._forget(ticket) if done.cancelled() else None)
        return ticket

    def ready(self, ticket: Ticket, work: Any, cost: Cost) -> None:
        """A worker has prepared the request: queue it, or settle it if it can't be in time."""
        with self._lock:
            if ticket.phase is not Phase.PREPARING:
                return  # it was cancelled, it expired, or the engine failed meanwhile
            lane = self._lanes[ticket.lane]
            lane.num_preparing -= 1
            refusal, ring = None, False
            try:
                self._require_in_time(lane, cost, ticket.deadline)
            except SystoneError as error:
                lane.num_preparing += 1  # it still is, until it is settled below
                refusal = error
            else:
                ticket.work = work
                lane.push(ticket, cost)
                ring = self._bell.wakes()
        if refusal is not None:
            self.settle(ticket, error=refusal)
        elif ring:
            self._bell.ring()  # last: the device thread can't run until this one lets it

    def settle(
        self, ticket: Ticket, *, result: Any = None, error: BaseException | None = None
    ) -> bool:
        """Give a ticket its outcome. False, and no effect, if it has one already."""
        with self._lock:
            if ticket.phase is Phase.SETTLED:
                return False
            claimed = ticket.phase is Phase.RUNNING or ticket.future.set_running_or_notify_cancel()
            self._close(ticket, outcome_of(error) if claimed else CANCELLED)
            if not claimed:
                self._leave(ticket)
                return False
        if error is None:
            ticket.future.set_result(result)
        else:
            ticket.future.set_exception(error)
        with self._lock:
            self._leave(ticket)  # only now: whoever drains may rely on the future's outcome
        return True

    # What the device thread does.

    def take(
        self, timeout_s: float | None = None, *, resumable: bool = False
    ) -> Batch | Resume | Errand | None:
        """The next batch of the model whose turn it is; waits for one, and for the time to form it:
        shortly before the device is done with what it has.

        `resumable`: a long batch has parts left to enqueue. Then RESUME says that its next part is
        due; it takes turns with batches that may run in between. An errand comes before anything.
        None when the scheduler has stopped or failed, or nothing came within `timeout_s`."""
        while True:
            with self._lock:
                if not self._await_turn(timeout_s, resumable) or self._ended():
                    return None
                if (errand := self._bell.take_errand()) is not None:
                    return errand
                waiting = self._waiting_names(resumable)
                if resumable and (self._resume_next or not waiting):
                    self._resume_next = False
                    return RESUME
                name = self._turns.choose(waiting)
                if name is None:
                    continue
                self._resume_next = resumable
                overdue, batch = self._form_batch(self._lanes[name], between=resumable)
            self._settle_all(overdue, _expired)
            if batch is not None:
                return batch

    def enqueued(self, expected_s: float) -> None:
        """The device was given a part that should take so long."""
        with self._lock:
            self._occupied.add(expected_s, self._clock())

    def part_done(self) -> None:
        """The device is done with the oldest part it was given."""
        with self._lock:
            self._occupied.remove(self._clock())
            ring = (self._resumable or self._has_waiting()) and self._bell.wakes()
        if ring:
            self._bell.ring()

    def idle(self) -> bool:
        """Whether the device has nothing to do."""
        with self._lock:
            return not self._occupied

    def nothing_waits(self) -> bool:
        """Whether no request is ready for the device."""
        with self._lock:
            return not self._has_waiting()

    def alone_on_device(self) -> bool:
        """Whether the device has one part, and nobody waits for the thread that gave it that."""
        with self._lock:
            alone = len(self._occupied) == 1 and not self._has_waiting()
            return alone and not self._ended()

    def stay_awake(self, until: float) -> None:
        """Let the device thread's next sleep begin awake; see `errand`."""
        self._bell.stays_until = until

    def errand(self, job: Callable[[], None]) -> bool:
        """Have the device thread run a short job at once, if it is idle and awake; whether it is:
        the same job takes a thread that has slept several times as long. Dropped at the end."""
        with self._lock:
            if self._ended() or not self._bell.send(job):
                return False
            self._bell.wakes()
        self._bell.ring()
        return True

    def done(self, batch: Batch, seconds: float) -> None:
        """The device is done with a batch: charge the model and teach its time curve."""
        with self._lock:
            self._running.remove(batch)
            self._turns.charge(batch.lane, seconds - batch.expected_s)
            self._lanes[batch.lane].curve.observe(batch.load.tokens, seconds)
            self._tally.lanes[batch.lane].add(batch.load, seconds)

    # What the owner and the watchdog do.

    def status(self) -> tuple[Status, str]:
        with self._lock:
            return self._condition.status, self._condition.reason

    def tally(self) -> Tally:
        with self._lock:
            return self._tally.copy()

    def depth(self) -> dict[str, tuple[int, int]]:
        """(undispatched, running) requests by model."""
        with self._lock:
            return {
                name: (
                    lane.num_undispatched,
                    sum(len(batch.tickets) for batch in self._running if batch.lane == name),
                )
                for name, lane in self._lanes.items()
            }

    def running_s(self) -> tuple[float, float]:
        """How long the oldest batch on the device has been there, and how long all that are there
        were expected to be; zeros without one."""
        with self._lock:
            if not self._running:
                return 0.0, 0.0
            return self._clock() - self._running[0].started, self._expected_s()

    def learn(self, name: str, tokens: int, seconds: float) -> None:
        """A batch that ran outside the queue (warm-up) teaches the model's time curve."""
        with self._lock:
            self._lanes[name].curve.observe(tokens, seconds)

    def expire(self) -> None:
        """Settle every undispatched request whose deadline has passed, also while a batch runs."""
        with self._lock:
            now = self._clock()
            overdue = [
                ticket
                for ticket in self._open
                if ticket.phase in UNDISPATCHED and ticket.overdue(now)
            ]
        self._settle_all(overdue, _expired)

    def set_ready(self) -> None:
        with self._lock:
            self._condition.move(Status.READY)

    def fail(self, reason: str) -> None:
        """The device or its worker is lost: health first, then every caller learns of it."""
        with self._lock:
            if not self._condition.move(Status.FAILED, reason):
                return
            victims = list(self._open)
        self._bell.ring()
        self._settle_all(victims, lambda: EngineDownError(f"the engine failed: {reason}"))

    def drain(self, timeout_s: float) -> bool:
        """Accept nothing more and wait for what was accepted; what is left then gets
        EngineDownError. True if everything had its own outcome in time."""
        with self._lock:
            self._condition.move(Status.DRAINING, "stopping")
            if self._all_settled.wait_for(lambda: not self._open, timeout_s):
                return True
            victims = list(self._open)
        self._settle_all(victims, lambda: EngineDownError("the engine stopped before its turn"))
        return False

    def stop(self) -> None:
        """End `take` for good."""
        with self._lock:
            self._stopped = True
        self._bell.ring()

    # Helpers; all but `_settle_all` and `_forget` run under the lock.

    def _waiting_names(self, between: bool) -> list[str]:
        """The models with requests to run now; `between`: between the parts of a long batch."""
        now = self._clock()
        return [
            name
            for name, lane in self._lanes.items()
            if (lane.due_between(now) if between else len(lane))
        ]

    def _ended(self) -> bool:
        return self._stopped or self._condition.status is Status.FAILED

    def _remaining_s(self) -> float | None:
        """What the batches on the device should still take; None if there are none."""
        if not self._running:
            return None
        return max(0.0, self._expected_s() - (self._clock() - self._running[0].started))

    def _expected_s(self) -> float:
        return sum(self._lanes[b.lane].curve.estimate(b.load.tokens) for b in self._running)

    def _await_turn(self, timeout_s: float | None, resumable: bool) -> bool:
        """Wait until something can be given to the device, or the end; False after `timeout_s`."""
        while (hold_s := self._turn_in_s(resumable)) != 0.0:
            known = [s for s in (hold_s, timeout_s) if s is not None]
            woken = self._sleep(min(known, default=None), resumable)
            if not woken and timeout_s is not None and (hold_s is None or timeout_s <= hold_s):
                return False
        return True

    def _sleep(self, timeout_s: float | None, resumable: bool) -> bool:
        """Let go of the lock until the bell rings; False after `timeout_s`."""
        self._bell.asleep, self._resumable = True, resumable
        self._lock.release()
        try:
            return self._bell.sleep(timeout_s)
        finally:
            self._lock.acquire()
            self._bell.asleep = self._resumable = False

    def _has_waiting(self) -> bool:
        return any(map(len, self._lanes.values()))

    def _turn_in_s(self, resumable: bool) -> float | None:
        """Seconds until the device should be given more; None: something has to happen first."""
        if self._ended() or self._bell.has_errand:
            return 0.0
        waiting = [lane for lane in self._lanes.values() if len(lane)]
        return self._occupied.turn_in_s(
            self._clock(),
            waiting=bool(waiting),
            filled=bool(waiting) and all(lane.overflows for lane in waiting),
            resumable=resumable,
        )

    def _require_room(self) -> None:
        self._condition.require_ready()
        try:
            self._admission.require_room(self._remaining_s())
        except SystoneError:
            self._tally.refused["queue_full"] += 1
            raise

    def _require_in_time(self, lane: Lane, cost: Cost | None, deadline: float | None) -> None:
        if deadline is not None:
            left_s = deadline - self._clock()
            self._admission.require_in_time(lane, cost, left_s, self._remaining_s())

    def _form_batch(self, lane: Lane, *, between: bool) -> tuple[list[Ticket], Batch | None]:
        """Claim the front of a queue: (the overdue ones in it, or else the batch). Callers who
        cancelled in this instant drop out here."""
        now = self._clock()
        front = lane.front(between=between)
        overdue = [ticket for ticket in front if ticket.overdue(now)]
        if overdue:
            return overdue, None
        claimed = []
        for ticket in front:
            if ticket.future.set_running_or_notify_cancel():
                lane.remove(ticket)
                ticket.phase = Phase.RUNNING
                ticket.stamps.dispatched = now
                claimed.append(ticket)
            else:
                self._close(ticket, CANCELLED)
                self._leave(ticket)
        if not claimed:
            return [], None
        load = load_of(claimed)
        batch = Batch(lane.name, tuple(claimed), load, now, lane.curve.estimate(load.tokens))
        self._turns.charge(lane.name, batch.expected_s)  # what it really takes, `done` corrects
        self._running.append(batch)
        return [], batch

    def _close(self, ticket: Ticket, outcome: str) -> None:
        """Take a ticket out of its lane and count its outcome."""
        lane = self._lanes[ticket.lane]
        if ticket.phase is Phase.PREPARING:
            lane.num_preparing -= 1
        lane.remove(ticket)
        ticket.phase = Phase.SETTLED
        ticket.work = ticket.rehearse = None
        self._tally.outcomes[outcome] += 1

    def _leave(self, ticket: Ticket) -> None:
        self._open.discard(ticket)
        if not self._open:
            self._all_settled.notify_all()

    def _forget(self, ticket: Ticket) -> None:
        """The caller cancelled."""
        with self._lock:
            if ticket.phase is not Phase.SETTLED:
                self._close(ticket, CANCELLED)
                self._leave(ticket)

    def _settle_all(self, tickets: Iterable[Ticket], error: Callable[[], SystoneError]) -> None:
        for ticket in tickets:
            self.settle(ticket, error=error())


def _expired() -> SystoneError:
    return DeadlineError("the deadline passed before the request's turn")
