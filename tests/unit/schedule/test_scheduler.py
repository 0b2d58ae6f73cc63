import threading
from concurrent.futures import Future
from typing import Any

import pytest

from systone.errors import CapacityError, DeadlineError, EngineDownError, RequestError
from systone.models.base import Cost
from systone.schedule.budget import Batch, Budget
from systone.schedule.health import Status
from systone.schedule.scheduler import Scheduler
from systone.schedule.ticket import Phase, Stamps, Ticket
from tests.fakes import FakeClock

WIDE = Budget(100, 100, 100, 100)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def scheduler(clock: FakeClock) -> Scheduler:
    made = Scheduler({"a": WIDE, "b": WIDE}, max_queue=8, quantum_s=0.02, clock=clock)
    made.set_ready()
    return made


def admit(scheduler: Scheduler, name: str = "a", deadline: float | None = None) -> Ticket:
    return scheduler.admit(name, deadline=deadline, future=Future(), stamps=Stamps())


def queue(
    scheduler: Scheduler, name: str = "a", tokens: int = 10, deadline: float | None = None
) -> Ticket:
    ticket = admit(scheduler, name, deadline)
    scheduler.ready(ticket, f"work of {name}", Cost(tokens, 1))
    return ticket


def take(scheduler: Scheduler) -> Batch:
    batch = scheduler.take(timeout_s=0)
    assert batch is not None
    return batch


def run(scheduler: Scheduler, clock: FakeClock, seconds: float) -> Batch:
    batch = take(scheduler)
    clock.advance(seconds)
    scheduler.done(batch, seconds)
    for ticket in batch.tickets:
        scheduler.settle(ticket, result="answer")
    return batch


def test_a_request_goes_through_its_phases_to_one_result(scheduler, clock) -> None:
    ticket = admit(scheduler)
    assert ticket.phase is Phase.PREPARING
    scheduler.ready(ticket, "work", Cost(10, 2, 3))
    assert (ticket.phase, ticket.work) == (Phase.WAITING, "work")
    assert scheduler.depth() == {"a": (1, 0), "b": (0, 0)}
    batch = take(scheduler)
    assert batch.tickets == (ticket,)
    assert (batch.load.tokens, batch.load.rows, batch.load.states) == (10, 2, 3)
    assert ticket.stamps.dispatched == clock.now
    assert ticket.phase is Phase.RUNNING
    assert scheduler.depth() == {"a": (0, 1), "b": (0, 0)}
    clock.advance(0.5)
    assert scheduler.running_s() == (0.5, 0.0)
    scheduler.done(batch, 0.5)
    assert scheduler.running_s() == (0.0, 0.0)
    assert scheduler.settle(ticket, result=42)
    assert ticket.future.result() == 42
    assert (ticket.phase, ticket.work) == (Phase.SETTLED, None)
    tally = scheduler.tally()
    assert (tally.admitted, dict(tally.outcomes)) == (1, {"answered": 1})
    assert (tally.lanes["a"].batches, tally.lanes["a"].tokens) == (1, 10)
    assert (tally.lanes["a"].requests, tally.lanes["a"].device_s) == (1, 0.5)


def test_requests_leave_in_the_order_they_became_ready(scheduler) -> None:
    tickets = [queue(scheduler, tokens=40) for _ in range(5)]
    batches = [take(scheduler).tickets for _ in range(3)]
    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert [ticket for batch in batches for ticket in batch] == tickets


def test_an_outcome_is_given_once(scheduler) -> None:
    ticket = queue(scheduler)
    take(scheduler)
    assert scheduler.settle(ticket, error=RequestError.at(("state",), "no"))
    assert not scheduler.settle(ticket, result="late")
    with pytest.raises(RequestError):
        ticket.future.result()
    assert dict(scheduler.tally().outcomes) == {"invalid": 1}


@pytest.mark.parametrize("prepared", [False, True])
def test_cancelling_before_dispatch_leaves_no_trace_but_a_count(scheduler, prepared) -> None:
    ticket = queue(scheduler) if prepared else admit(scheduler)
    assert ticket.future.cancel()
    assert scheduler.depth() == {"a": (0, 0), "b": (0, 0)}
    assert scheduler.take(timeout_s=0) is None
    scheduler.ready(ticket, "late work", Cost(10, 1))  # a worker finished it all the same
    assert scheduler.take(timeout_s=0) is None
    assert not scheduler.settle(ticket, result="late")
    assert dict(scheduler.tally().outcomes) == {"cancelled": 1}
    assert scheduler.drain(0)


def test_cancelling_after_dispatch_is_too_late(scheduler) -> None:
    ticket = queue(scheduler)
    take(scheduler)
    assert not ticket.future.cancel()
    assert scheduler.settle(ticket, result="answer")


def test_a_cancel_that_meets_the_dispatch_drops_the_request(scheduler, monkeypatch) -> None:
    """Cancelled, but its callback hasn't run yet when the batch is formed."""
    ticket, other = queue(scheduler), queue(scheduler)
    monkeypatch.setattr(ticket.future, "_invoke_callbacks", lambda: None)
    ticket.future.cancel()
    assert take(scheduler).tickets == (other,)
    assert dict(scheduler.tally().outcomes) == {"cancelled": 1}


def test_a_batch_of_cancelled_requests_is_no_batch(scheduler, monkeypatch) -> None:
    ticket = queue(scheduler)
    monkeypatch.setattr(ticket.future, "_invoke_callbacks", lambda: None)
    ticket.future.cancel()
    assert scheduler.take(timeout_s=0) is None


def test_settling_a_request_that_was_just_cancelled_counts_it_as_cancelled(
    scheduler, monkeypatch
) -> None:
    ticket = admit(scheduler)
    monkeypatch.setattr(ticket.future, "_invoke_callbacks", lambda: None)
    ticket.future.cancel()
    assert not scheduler.settle(ticket, error=RequestError.at((), "no"))
    assert dict(scheduler.tally().outcomes) == {"cancelled": 1}


def test_a_full_queue_refuses_at_once_and_says_when_to_retry(scheduler, clock) -> None:
    for _ in range(6):
        queue(scheduler, "a", tokens=100)
    run(scheduler, clock, 3.0)
    for _ in range(3):
        admit(scheduler, "b")
    with pytest.raises(CapacityError) as caught:
        admit(scheduler, "b")
    assert caught.value.status == 429
    assert caught.value.retry_after_s == 15.0  # five batches of three seconds
    with pytest.raises(CapacityError):
        scheduler.require_room()
    assert dict(scheduler.tally().refused) == {"queue_full": 2}


def test_dispatched_requests_make_room(scheduler) -> None:
    for _ in range(8):
        queue(scheduler)
    with pytest.raises(CapacityError):
        admit(scheduler)
    take(scheduler)
    scheduler.require_room()
    admit(scheduler)


def test_a_request_that_cannot_meet_its_deadline_is_refused_at_once(scheduler, clock) -> None:
    queue(scheduler, tokens=100)
    run(scheduler, clock, 1.0)  # 10 ms a token
    queue(scheduler, tokens=100)
    with pytest.raises(CapacityError) as caught:
        admit(scheduler, deadline=clock.now + 1.5)
    assert caught.value.status == 503
    assert caught.value.retry_after_s == 1.0
    admit(scheduler, deadline=clock.now + 2.5)
    assert dict(scheduler.tally().refused) == {"deadline": 1}


def test_the_running_batch_counts_for_what_it_has_left(scheduler, clock) -> None:
    queue(scheduler, tokens=100)
    run(scheduler, clock, 1.0)
    queue(scheduler, tokens=100)
    take(scheduler)
    clock.advance(0.9)
    admit(scheduler, deadline=clock.now + 1.2)  # 0.1 s left of that, 1 s of its own
    clock.advance(-0.8)
    with pytest.raises(CapacityError):
        admit(scheduler, deadline=clock.now + 1.2)


def test_another_models_backlog_counts_for_its_turns_only(scheduler, clock) -> None:
    for name in ("a", "b"):
        queue(scheduler, name, tokens=100)
        run(scheduler, clock, 1.0)
    for _ in range(5):
        queue(scheduler, "b", tokens=100)
    admit(scheduler, "a", deadline=clock.now + 1.1)  # one quantum of b, then its own second
    with pytest.raises(CapacityError):
        admit(scheduler, "b", deadline=clock.now + 4.0)


def test_the_known_cost_is_checked_again_once_prepared(scheduler, clock) -> None:
    queue(scheduler, tokens=1)
    run(scheduler, clock, 0.01)  # 10 ms a token
    queue(scheduler, tokens=1)
    large = admit(scheduler, deadline=clock.now + 0.5)
    scheduler.ready(large, "work", Cost(100, 1))
    with pytest.raises(CapacityError, match="can't be answered in time"):
        large.future.result(0)
    assert dict(scheduler.tally().outcomes) == {"answered": 1, "refused_after_prepare": 1}
    assert scheduler.depth()["a"] == (1, 0)


def test_one_large_request_makes_nobody_look_late(scheduler, clock) -> None:
    for tokens, seconds in ((1, 0.01), (1, 0.01), (100, 1.0)):  # 10 ms a token
        queue(scheduler, tokens=tokens)
        run(scheduler, clock, seconds)
    for _ in range(3):
        queue(scheduler, tokens=1)
    for _ in range(4):  # of which nothing is known yet
        admit(scheduler, deadline=clock.now + 0.1)
    assert not scheduler.tally().refused


def test_a_batch_that_took_for_ever_once_makes_nobody_look_late(scheduler, clock) -> None:
    for seconds in (0.1, 0.1, 0.1, 600.0):
        queue(scheduler, tokens=10)
        run(scheduler, clock, seconds)
    queue(scheduler, tokens=10)
    admit(scheduler, deadline=clock.now + 2.0)
    assert not scheduler.tally().refused


def test_an_idle_engine_accepts_what_its_curve_would_refuse(scheduler, clock) -> None:
    queue(scheduler, tokens=10)
    run(scheduler, clock, 100.0)  # one terrible batch
    queue(scheduler, tokens=10, deadline=clock.now + 1.0)
    run(scheduler, clock, 0.01)
    for _ in range(3):
        queue(scheduler, tokens=10)
        run(scheduler, clock, 0.01)
    assert scheduler.tally().outcomes["answered"] == 5


def test_a_passed_deadline_is_refused_even_when_idle(scheduler, clock) -> None:
    with pytest.raises(DeadlineError):
        admit(scheduler, deadline=clock.now)


def test_requests_expire_in_the_queue_before_dispatch(scheduler, clock) -> None:
    early = queue(scheduler, deadline=clock.now + 1)
    late = queue(scheduler, deadline=clock.now + 9)
    clock.advance(2)
    assert take(scheduler).tickets == (late,)
    with pytest.raises(DeadlineError):
        early.future.result(0)
    assert dict(scheduler.tally().outcomes) == {"expired": 1}


def test_requests_expire_while_a_batch_runs_but_not_the_running_ones(scheduler, clock) -> None:
    running = queue(scheduler, deadline=clock.now + 1)
    take(scheduler)
    waiting = queue(scheduler, deadline=clock.now + 1)
    preparing = admit(scheduler, deadline=clock.now + 1)
    clock.advance(2)
    scheduler.expire()
    assert isinstance(waiting.future.exception(0), DeadlineError)
    assert isinstance(preparing.future.exception(0), DeadlineError)
    assert not running.future.done()
    scheduler.ready(preparing, "late", Cost(1, 1))
    assert scheduler.depth() == {"a": (0, 1), "b": (0, 0)}


def test_health_turns_before_the_first_caller_learns_of_a_failure(scheduler) -> None:
    tickets = [queue(scheduler), queue(scheduler, "b"), admit(scheduler)]
    take(scheduler)
    seen: list[Status] = []
    for ticket in tickets:
        ticket.future.add_done_callback(lambda _: seen.append(scheduler.status()[0]))
    scheduler.fail("device lost")
    assert seen == [Status.FAILED] * 3
    assert all(isinstance(t.future.exception(0), EngineDownError) for t in tickets)
    with pytest.raises(EngineDownError, match="device lost"):
        admit(scheduler)
    assert scheduler.take() is None
    scheduler.fail("again")
    assert scheduler.status() == (Status.FAILED, "device lost")
    assert not scheduler.settle(tickets[0], result="late")


def test_nothing_is_admitted_before_ready(clock) -> None:
    scheduler = Scheduler({"a": WIDE}, max_queue=8, quantum_s=0.02, clock=clock)
    with pytest.raises(EngineDownError, match="starting"):
        admit(scheduler)
    scheduler.learn("a", 100, 1.0)  # warm-up teaches the curve
    scheduler.set_ready()
    queue(scheduler, tokens=100)
    with pytest.raises(CapacityError):
        admit(scheduler, deadline=clock.now + 0.5)


def test_draining_refuses_new_requests_and_waits_for_accepted_ones(scheduler, clock) -> None:
    ticket = queue(scheduler)

    def serve() -> None:
        batch = scheduler.take()
        assert batch is not None
        scheduler.done(batch, 0.1)
        with pytest.raises(EngineDownError, match="draining"):
            admit(scheduler)
        scheduler.settle(ticket, result="answer")

    worker = threading.Timer(0.05, serve)
    worker.start()
    assert scheduler.drain(10)
    worker.join()
    assert ticket.future.result(0) == "answer"


def test_what_the_drain_time_does_not_reach_gets_an_error(scheduler) -> None:
    running, waiting = queue(scheduler, tokens=100), queue(scheduler)
    take(scheduler)
    assert not scheduler.drain(0.01)
    for ticket in (running, waiting):
        assert isinstance(ticket.future.exception(0), EngineDownError)


def test_stop_ends_a_waiting_take(scheduler) -> None:
    got: list[Any] = ["unset"]
    thread = threading.Thread(target=lambda: got.__setitem__(0, scheduler.take()))
    thread.start()
    scheduler.stop()
    thread.join(5)
    assert got == [None]


def test_models_take_turns_by_device_time(scheduler, clock) -> None:
    for _ in range(4):
        queue(scheduler, "a", tokens=100)
        queue(scheduler, "b", tokens=100)
    order = [run(scheduler, clock, 0.02).lane for _ in range(8)]
    assert sorted(order[:2]) == sorted(order[2:4]) == sorted(order[4:6]) == ["a", "b"]


def test_drained_means_that_futures_have_their_outcome(scheduler, clock) -> None:
    """A caller's callback runs inside the settling thread; the drain waits for it too."""
    ticket = queue(scheduler)
    batch = take(scheduler)
    scheduler.done(batch, 0.1)
    release = threading.Event()
    ticket.future.add_done_callback(lambda _: release.wait(5))
    settling = threading.Thread(target=scheduler.settle, args=(ticket,))
    settling.start()
    assert not scheduler.drain(0.05)
    release.set()
    assert scheduler.drain(5)
    settling.join()
