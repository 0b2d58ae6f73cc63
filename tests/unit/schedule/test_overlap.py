"""The loop over a device that works while the next batch is formed: a fake that is done with a
part when the test says so, and notes what is asked of it in which order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from systone.errors import EngineDownError, EngineFaultError
from systone.models.base import Cost, Flight
from systone.schedule.budget import Batch, Budget
from systone.schedule.health import Status
from systone.schedule.lane import GATHERED
from systone.schedule.loop import run_batches
from systone.schedule.occupancy import LEAD_S, LEAD_SHARE, Occupancy
from systone.schedule.scheduler import Scheduler
from systone.schedule.ticket import Stamps, Ticket

SOON_S = 10.0


class Device:
    """Parts in the order enqueued; `finish` ends the oldest that runs."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Any]] = []
        self.running: list[tuple[Any, threading.Event]] = []
        self.changed = threading.Condition()
        self.waiters: list[tuple[Any, str]] = []  # who waited for which part

    def enqueue(self, name: Any) -> threading.Event:
        done = threading.Event()
        with self.changed:
            self.log.append(("enqueue", name))
            self.running.append((name, done))
            self.changed.notify_all()
        return done

    def finish(self) -> Any:
        """The name of the part that ended."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.running, SOON_S), self.log
            name, done = self.running.pop(0)
            self.log.append(("done", name))
        done.set()
        return name

    def wait_enqueued(self, name: Any) -> None:
        with self.changed:
            told = self.changed.wait_for(lambda: ("enqueue", name) in self.log, SOON_S)
        assert told, (name, self.log)


class Later(Flight):
    """A batch of works, in as many parts as its only work says: (name, parts)."""

    waits = True

    def __init__(self, device: Device, works: Sequence[Any], breaks: dict[Any, Exception]) -> None:
        self._device, self._works, self._breaks = device, works, breaks
        self._parts = max(parts for _, parts in works)
        self._at = 0
        self._ends: list[threading.Event] = []

    @property
    def name(self) -> Any:
        return tuple(name for name, _ in self._works)

    def enqueue(self) -> bool:
        self._raise("enqueue")
        self._at += 1
        one = self._parts == 1
        self._ends.append(self._device.enqueue(self.name if one else (*self.name, self._at)))
        return self._at < self._parts

    def done(self) -> bool:
        return self._ends[0].is_set()

    def wait(self) -> None:
        self._device.waiters.append((self.name, threading.current_thread().name))
        assert self._ends.pop(0).wait(SOON_S)
        self._raise("wait")

    def results(self) -> Sequence[Any]:
        return [f"answer {name}" for name, _ in self._works]

    def _raise(self, step: str) -> None:
        for name, _ in self._works:
            if (step, name) in self._breaks:
                raise self._breaks[step, name]


class Rig:
    """The loop on a thread of its own, over a `Device`."""

    def __init__(self, awake_s: float) -> None:
        self.device = Device()
        self.breaks: dict[Any, Exception] = {}
        budget = Budget(tokens=100, rows=99, states=99, requests=2, whole_tokens=50)
        self.scheduler = Scheduler(
            {"m": budget}, max_queue=99, quantum_s=0.02, clock=time.monotonic
        )
        self.scheduler.set_ready()
        self.delivered: list[Any] = []
        self.thread = threading.Thread(
            target=run_batches,
            args=(self.scheduler, self._begin, self._deliver, time.monotonic, awake_s),
        )
        self.thread.start()

    def _begin(self, lane: str, works: Sequence[Any]) -> Flight:
        return Later(self.device, works, self.breaks)

    def _deliver(self, batch: Batch, works: Any, results: Any, alone: bool) -> None:
        self.delivered.append(tuple(name for name, _ in works))
        for ticket, result in zip(batch.tickets, results, strict=True):
            failed = isinstance(result, Exception)
            self.scheduler.settle(
                ticket, result=None if failed else result, error=result if failed else None
            )

    def ask(self, name: Any, parts: int = 1, tokens: int = 10, waited_s: float = 1.0) -> Ticket:
        stamps = Stamps(prepare_end=time.monotonic() - waited_s)
        ticket = self.scheduler.admit("m", deadline=None, future=Future(), stamps=stamps)
        self.scheduler.ready(ticket, (name, parts), Cost(tokens, 1))
        return ticket


def running(awake_s: float) -> Iterator[Rig]:
    made = Rig(awake_s)
    yield made
    made.scheduler.stop()
    while made.device.running:
        made.device.finish()
    made.thread.join(SOON_S)
    assert not made.thread.is_alive()


@pytest.fixture(params=[0.0, 0.002], ids=["asleep", "awake"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    yield from running(request.param)


def outcome(ticket: Ticket) -> Any:
    return ticket.future.exception(SOON_S) or ticket.future.result(SOON_S)


def test_the_next_batch_is_enqueued_before_the_first_is_read(rig: Rig) -> None:
    first = rig.ask("a")
    rig.device.wait_enqueued(("a",))
    second = rig.ask("b")
    rig.device.wait_enqueued(("b",))
    assert not rig.delivered
    assert rig.scheduler.depth() == {"m": (0, 2)}
    rig.device.finish()
    assert outcome(first) == "answer a"
    assert not second.future.done()
    rig.device.finish()
    assert outcome(second) == "answer b"
    assert [step for step, _ in rig.device.log] == ["enqueue", "enqueue", "done", "done"]


def test_a_third_batch_waits_for_the_first_and_is_joined_meanwhile(rig: Rig) -> None:
    tickets = [rig.ask("a")]
    rig.device.wait_enqueued(("a",))
    tickets.append(rig.ask("b"))
    rig.device.wait_enqueued(("b",))
    tickets += [rig.ask("c"), rig.ask("d")]
    assert rig.scheduler.depth() == {"m": (2, 2)}
    rig.device.finish()
    rig.device.wait_enqueued(("c", "d"))
    while rig.device.running:
        rig.device.finish()
    assert [outcome(t) for t in tickets] == [f"answer {n}" for n in "abcd"]


def test_a_batch_is_formed_late_so_that_requests_join_it(rig: Rig) -> None:
    """The first is expected to take two seconds: the second waits until near its end."""
    rig.scheduler.learn("m", 10, 2.0)
    rig.ask("a")
    rig.device.wait_enqueued(("a",))
    began = time.monotonic()
    rig.ask("b")
    time.sleep(0.05)
    rig.ask("c")
    rig.device.wait_enqueued(("b", "c"))
    assert time.monotonic() - began > 1.0
    assert len(rig.device.running) == 2  # and yet before the first ended


def test_a_device_that_is_done_early_is_given_the_next_at_once(rig: Rig) -> None:
    rig.scheduler.learn("m", 10, 60.0)
    rig.ask("a")
    rig.device.wait_enqueued(("a",))
    rig.ask("b")
    rig.device.finish()
    rig.device.wait_enqueued(("b",))


def test_short_batches_run_between_the_parts_of_a_long_one(rig: Rig) -> None:
    long = rig.ask("long", parts=4, tokens=90)
    rig.device.wait_enqueued(("long", 2))
    second = rig.ask("long2", parts=2, tokens=90)
    shorts = [rig.ask(name) for name in "abc"]
    ended = [rig.device.finish() for _ in range(8)]
    assert ended == [
        ("long", 1), ("long", 2), ("a", "b"), ("long", 3), ("c",), ("long", 4),
        ("long2", 1), ("long2", 2),
    ]  # fmt: skip
    assert [outcome(t) for t in (long, second, *shorts)] == [
        f"answer {n}" for n in ("long", "long2", "a", "b", "c")
    ]


def test_requests_that_just_came_are_gathered_before_they_interrupt_a_long_batch(rig: Rig) -> None:
    """Until the first has waited for `GATHER_S` (here: as if it came in a minute), or there are
    enough of them."""
    rig.ask("long", parts=9, tokens=90)
    rig.device.wait_enqueued(("long", 2))
    tickets = [rig.ask("a", waited_s=-60.0)]
    rig.device.finish()
    rig.device.wait_enqueued(("long", 3))
    tickets.append(rig.ask("b", tokens=int(100 * GATHERED)))
    rig.device.finish()
    rig.device.wait_enqueued(("a", "b"))
    for _ in range(3):
        rig.device.finish()
    assert [outcome(t) for t in tickets] == ["answer a", "answer b"]


def test_at_most_two_parts_are_ahead_of_a_request_that_comes(rig: Rig) -> None:
    rig.ask("long", parts=5, tokens=90)
    rig.device.wait_enqueued(("long", 2))
    for _ in range(3):
        assert len(rig.device.running) <= 2
        rig.device.finish()


@pytest.mark.parametrize("step", ["enqueue", "wait"])
def test_a_fault_fails_its_own_batch_while_others_are_in_flight(rig: Rig, step: str) -> None:
    rig.breaks[step, "b"] = RuntimeError("kaput")
    tickets = [rig.ask("a")]
    rig.device.wait_enqueued(("a",))
    tickets.append(rig.ask("b"))
    if step == "wait":
        rig.device.wait_enqueued(("b",))
    else:
        assert isinstance(tickets[1], Ticket)
        rig.device.finish()
        outcome(tickets[1])
    tickets.append(rig.ask("c"))
    for _ in range(3 if step == "wait" else 1):
        rig.device.finish()
    first, second, third = (outcome(t) for t in tickets)
    assert (first, third) == ("answer a", "answer c")
    assert isinstance(second, EngineFaultError)
    assert isinstance(second.__cause__, RuntimeError)


def test_a_long_batch_that_breaks_half_way_fails_alone_and_once(rig: Rig) -> None:
    long = rig.ask("long", parts=4, tokens=90)
    rig.device.wait_enqueued(("long", 2))
    rig.breaks["enqueue", "long"] = RuntimeError("kaput")
    short = rig.ask("a")
    for _ in range(3):
        rig.device.finish()
    assert isinstance(outcome(long), EngineFaultError)
    assert outcome(short) == "answer a"
    assert rig.scheduler.status()[0] is Status.READY


def test_a_device_lost_while_it_is_waited_for_fails_everyone(rig: Rig) -> None:
    rig.breaks["wait", "a"] = EngineDownError("CUDA error")
    tickets = [rig.ask("a")]
    rig.device.wait_enqueued(("a",))
    tickets += [rig.ask("b"), rig.ask("c")]
    rig.device.finish()
    assert all(isinstance(outcome(t), EngineDownError) for t in tickets)
    assert rig.scheduler.status() == (Status.FAILED, "device lost: CUDA error")


def test_draining_waits_for_what_is_in_flight(rig: Rig) -> None:
    tickets = [rig.ask("a")]
    rig.device.wait_enqueued(("a",))
    tickets.append(rig.ask("long", parts=3, tokens=90))
    drained: list[bool] = []
    closing = threading.Thread(target=lambda: drained.append(rig.scheduler.drain(SOON_S)))
    closing.start()
    for _ in range(4):
        rig.device.finish()
    closing.join(SOON_S)
    assert drained == [True]
    assert [outcome(t) for t in tickets] == ["answer a", "answer long"]


def test_a_batch_that_can_take_no_more_is_not_held(rig: Rig) -> None:
    rig.scheduler.learn("m", 10, 60.0)  # the device is busy for a minute, as far as anybody knows
    rig.ask("a")
    rig.device.wait_enqueued(("a",))
    rig.ask("b")
    rig.ask("c")
    time.sleep(0.05)
    assert ("enqueue", ("b", "c")) not in rig.device.log  # a batch of two has not overflowed
    last = rig.ask("d")
    rig.device.wait_enqueued(("b", "c"))
    assert len(rig.device.running) == 2
    for _ in range(3):
        rig.device.finish()
    assert outcome(last) == "answer d"


def test_stopping_in_flight_still_reads_what_was_enqueued(rig: Rig) -> None:
    ticket = rig.ask("a")
    rig.device.wait_enqueued(("a",))
    rig.scheduler.stop()
    rig.device.finish()
    assert outcome(ticket) == "answer a"


def test_cancelled_requests_never_reach_the_device(rig: Rig) -> None:
    rig.scheduler.learn("m", 10, 0.4)
    rig.ask("a")
    rig.device.wait_enqueued(("a",))
    gone, stays = rig.ask("b"), rig.ask("c")
    assert gone.future.cancel()
    rig.device.wait_enqueued(("c",))
    rig.device.finish()
    rig.device.finish()
    assert outcome(stays) == "answer c"


def test_a_reader_that_breaks_fails_the_engine(rig: Rig, monkeypatch) -> None:
    monkeypatch.setattr(rig.scheduler, "part_done", lambda: 1 / 0)
    ticket = rig.ask("a")
    rig.device.finish()
    assert isinstance(outcome(ticket), EngineDownError)


def test_the_hold_ends_a_lead_before_the_device_is_idle() -> None:
    occupied = Occupancy()
    assert occupied.hold_s(5.0) == 0.0
    occupied.add(1.0, 10.0)
    assert occupied.hold_s(10.0) == pytest.approx(1.0 - LEAD_S - LEAD_SHARE)
    assert occupied.hold_s(11.5) == 0.0
    occupied.add(2.0, 10.5)
    assert occupied.full
    occupied.remove(11.2)  # later than expected
    assert occupied.hold_s(11.2) == pytest.approx(2.0 - LEAD_S - 2 * LEAD_SHARE)


@pytest.fixture
def awake() -> Iterator[Rig]:
    yield from running(5.0)


def test_a_batch_alone_is_waited_for_by_the_thread_that_enqueued_it(awake: Rig) -> None:
    first = awake.ask("a")
    awake.device.finish()
    assert outcome(first) == "answer a"
    assert awake.device.waiters == [(("a",), awake.thread.name)]


def test_the_thread_that_waits_awake_leaves_that_to_the_reader_when_it_is_needed(
    awake: Rig,
) -> None:
    first = awake.ask("a")
    awake.device.wait_enqueued(("a",))
    second = awake.ask("b")
    awake.device.wait_enqueued(("b",))
    assert not awake.delivered
    awake.device.finish()
    awake.device.finish()
    assert [outcome(t) for t in (first, second)] == ["answer a", "answer b"]
    assert awake.device.waiters[0] == (("a",), "systone-reader")


def test_a_long_batch_is_left_to_the_reader(awake: Rig) -> None:
    ticket = awake.ask("long", parts=2)
    awake.device.finish()
    awake.device.finish()
    assert outcome(ticket) == "answer long"
    assert {who for _, who in awake.device.waiters} == {"systone-reader"}


def test_a_failed_wait_fails_its_batch_and_no_other(awake: Rig) -> None:
    awake.breaks["wait", "a"] = ValueError("broken")
    first = awake.ask("a")
    awake.device.finish()
    assert isinstance(outcome(first), EngineFaultError)
    second = awake.ask("b")
    awake.device.finish()
    assert outcome(second) == "answer b"


def test_an_errand_is_run_by_an_awake_thread_only(awake: Rig) -> None:
    ran: list[str] = []
    errand = lambda: ran.append(threading.current_thread().name)  # noqa: E731
    assert not awake.scheduler.errand(errand)  # nothing was asked yet: it sleeps
    first = awake.ask("a")
    awake.device.wait_enqueued(("a",))
    assert not awake.scheduler.errand(errand)  # it waits for the device
    awake.device.finish()
    assert outcome(first) == "answer a"
    end = time.monotonic() + SOON_S
    while not awake.scheduler.errand(errand):
        assert time.monotonic() < end
    while not ran:
        assert time.monotonic() < end
    assert ran == [awake.thread.name]


def test_an_errand_that_finds_the_end_is_refused(awake: Rig) -> None:
    first = awake.ask("a")
    awake.device.finish()
    outcome(first)
    awake.scheduler.stop()
    assert not awake.scheduler.errand(lambda: None)


def test_what_comes_next_is_rehearsed_by_the_thread_that_waits(awake: Rig) -> None:
    who: list[str] = []
    stamps = Stamps(prepare_end=time.monotonic())
    ticket = awake.scheduler.admit("m", deadline=None, future=Future(), stamps=stamps)
    ticket.rehearse = lambda: who.append(threading.current_thread().name)
    awake.scheduler.ready(ticket, ("a", 1), Cost(10, 1))
    awake.device.finish()
    assert outcome(ticket) == "answer a"
    end = time.monotonic() + SOON_S
    while not who:  # once more after the answer is out
        assert time.monotonic() < end
    assert set(who) == {awake.thread.name}
    assert ticket.rehearse is None
