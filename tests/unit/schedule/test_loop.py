import time
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from systone.errors import CapacityError, EngineDownError, EngineFaultError
from systone.models.base import Cost, Executed, Flight
from systone.schedule.budget import Budget
from systone.schedule.health import Status
from systone.schedule.loop import run_batches
from systone.schedule.scheduler import Scheduler
from systone.schedule.ticket import Stamps, Ticket
from systone.schedule.watchdog import Watchdog
from tests.fakes import FakeClock


class Rig:
    """A scheduler with queued requests whose loop runs in the test's own thread."""

    def __init__(self, count: int = 2, per_batch: int = 2) -> None:
        self.clock = FakeClock()
        budget = Budget(100, 100, 100, per_batch)
        self.scheduler = Scheduler({"m": budget}, max_queue=9, quantum_s=0.02, clock=self.clock)
        self.scheduler.set_ready()
        self.tickets: list[Ticket] = []
        for i in range(count):
            ticket = self.scheduler.admit("m", deadline=None, future=Future(), stamps=Stamps())
            self.scheduler.ready(ticket, i, Cost(1, 1))
            self.tickets.append(ticket)

    def run(self, execute: Any, flight: Any = Executed) -> list[Any]:
        """Each caller's result or error once the loop has ended."""

        def deliver(batch: Any, works: Any, results: Any, alone: bool) -> None:
            for ticket, work, result in zip(batch.tickets, works, results, strict=True):
                failed = isinstance(result, Exception)
                assert work == self.tickets.index(ticket)
                self.scheduler.settle(
                    ticket, result=None if failed else result, error=result if failed else None
                )
            if all(ticket.future.done() for ticket in self.tickets):
                self.scheduler.stop()

        def begin(lane: str, works: Any) -> Flight:
            return flight(partial(execute, lane), works)

        run_batches(self.scheduler, begin, deliver, self.clock)
        return [t.future.exception(0) or t.future.result(0) for t in self.tickets]


def test_results_go_to_their_own_callers() -> None:
    assert Rig(5).run(lambda lane, works: [work * 10 for work in works]) == [0, 10, 20, 30, 40]


def test_a_flight_nobody_else_waits_for_is_done_part_by_part_when_enqueued() -> None:
    class Serial(Executed):
        """Three parts; what `wait` saw done is the result."""

        def __init__(self, execute: Any, batch: Any) -> None:
            super().__init__(execute, batch)
            self.enqueued = self.done = 0

        def enqueue(self) -> bool:
            assert self.done == self.enqueued
            self.enqueued += 1
            return self.enqueued < 3

        def wait(self) -> None:
            self.done += 1

        def results(self) -> Any:
            return [self.done for _ in self._batch]

    assert Rig(2).run(lambda lane, works: works, Serial) == [3, 3]


def test_device_time_is_stamped_charged_and_learned() -> None:
    rig = Rig(1)

    def execute(lane: str, works: Any) -> Any:
        assert lane == "m"
        rig.clock.advance(0.25)
        return works

    rig.run(execute)
    stamps = rig.tickets[0].stamps
    assert stamps.device_end - stamps.dispatched == 0.25
    assert rig.scheduler.tally().lanes["m"].device_s == 0.25


def test_an_exception_fails_its_batch_only() -> None:
    def execute(lane: str, works: Any) -> Any:
        if 0 in works:
            raise MemoryError("no room")
        return works

    first, second, third, fourth = Rig(4).run(execute)
    assert isinstance(first, EngineFaultError)
    assert isinstance(first.__cause__, MemoryError)
    assert isinstance(second, EngineFaultError)
    assert first is not second
    assert (third, fourth) == (2, 3)


def test_an_error_entry_fails_its_request_only() -> None:
    bad = EngineFaultError("not finite", code="non_finite_output")
    assert Rig(3).run(lambda lane, works: [bad if w == 1 else w for w in works]) == [0, bad, 2]


@pytest.mark.parametrize(
    ("raised", "status"), [(CapacityError("no memory", retry_after_s=2.0, status=503), 503)]
)
def test_a_batch_that_had_no_room_is_retryable(raised: CapacityError, status: int) -> None:
    rig = Rig(2)
    calls = iter([raised])

    def execute(lane: str, works: Any) -> Any:
        raise next(calls)

    for outcome in rig.run(execute):
        assert isinstance(outcome, CapacityError)
        assert (outcome.status, outcome.retry_after_s) == (status, 2.0)


def test_a_fault_of_ours_keeps_its_code() -> None:
    def execute(lane: str, works: Any) -> Any:
        raise EngineFaultError("self-check", code="self_check")

    assert {outcome.code for outcome in Rig(2).run(execute)} == {"self_check"}


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_results_reaches_nobody(count: int) -> None:
    for outcome in Rig(2).run(lambda lane, works: ["answer"] * count):
        assert isinstance(outcome, EngineFaultError)
        assert outcome.code == "result_mismatch"


@pytest.mark.parametrize("as_entry", [False, True])
def test_a_lost_device_fails_everyone_and_ends_the_loop(as_entry: bool) -> None:
    rig = Rig(4)

    def execute(lane: str, works: Any) -> Any:
        if as_entry:
            return [EngineDownError("CUDA error") for _ in works]
        raise EngineDownError("CUDA error")

    for outcome in rig.run(execute):  # the second batch never ran
        assert isinstance(outcome, EngineDownError)
    assert rig.scheduler.status() == (Status.FAILED, "device lost: CUDA error")


def test_a_worker_that_is_ended_fails_everyone() -> None:
    rig = Rig(2)

    def execute(lane: str, works: Any) -> Any:
        raise SystemExit(1)

    assert all(isinstance(outcome, EngineDownError) for outcome in rig.run(execute))
    assert rig.scheduler.status() == (Status.FAILED, "device worker ended: SystemExit")


def test_a_frozen_batch_fails_the_engine_within_the_stated_limit() -> None:
    rig = Rig(3)
    watchdog = Watchdog(rig.scheduler, rig.clock, max_batch_s=2.0)
    rig.scheduler.take()
    rig.clock.advance(1.9)
    watchdog.look()
    assert rig.scheduler.status()[0] is Status.READY
    rig.clock.advance(0.2)
    watchdog.look()
    status, reason = rig.scheduler.status()
    assert status is Status.FAILED
    assert "frozen" in reason
    assert all(isinstance(t.future.exception(0), EngineDownError) for t in rig.tickets)


def test_a_large_batch_on_a_slow_device_is_no_freeze() -> None:
    rig = Rig(2)
    rig.scheduler.learn("m", 1, 0.5)  # a batch of two tokens is expected to take a second
    watchdog = Watchdog(rig.scheduler, rig.clock, max_batch_s=2.0)
    rig.scheduler.take()
    for _ in range(3):
        rig.clock.advance(3.0)
        watchdog.look()
    assert rig.scheduler.status()[0] is Status.READY
    rig.clock.advance(2.0)
    watchdog.look()
    assert rig.scheduler.status()[0] is Status.FAILED


def test_a_process_that_was_stopped_meanwhile_is_no_freeze() -> None:
    rig = Rig(2)
    watchdog = Watchdog(rig.scheduler, rig.clock, max_batch_s=2.0, tick_s=0.001)
    watchdog.start()
    rig.scheduler.take()
    rig.clock.advance(1000.0)  # between two ticks
    time.sleep(0.1)
    assert rig.scheduler.status()[0] is Status.READY
    end = time.monotonic() + 10.0
    while rig.scheduler.status()[0] is Status.READY:  # awake, its batches can still freeze
        assert time.monotonic() < end
        rig.clock.advance(0.1)
        time.sleep(0.005)
    watchdog.stop()
    assert rig.scheduler.running_s()[0] > 1002.0


def test_the_watchdog_expires_requests_on_its_own_thread() -> None:
    rig = Rig(0)
    ticket = rig.scheduler.admit("m", deadline=rig.clock.now + 1, future=Future(), stamps=Stamps())
    rig.clock.advance(2)
    watchdog = Watchdog(rig.scheduler, rig.clock, max_batch_s=2.0, tick_s=0.001)
    watchdog.start()
    assert ticket.future.exception(5) is not None
    watchdog.stop()
