"""Which thread does what: idle, a small request is handed over twice; busy, workers are used."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from systone import pipeline
from systone.config import EngineConfig
from systone.engine import Engine, Pending
from systone.errors import CapacityError, EngineDownError, EngineFaultError, RequestError
from systone.models.base import Cost
from systone.protocol.types import Asset, Noul, NoulAnswer, Request
from systone.schedule.lane import AT_ONCE_S, AT_ONCE_SIZE, Lane
from systone.schedule.loop import FEW
from systone.schedule.ticket import Ticket
from tests.fakes import (
    FakeAdapter,
    FakeExecutor,
    LaterExecutor,
    await_waiting,
    fake_model,
    fake_noul,
)

WET = {"wet": Noul("Is it wet?")}
SOON_S = 5.0
LONG_S = 1.0  # the longest a thread may be told to stay awake


class Threads:
    """The threads that prepared and finished each state.

    `prepare_s` is what preparing is said to have taken: by the clock, a busy machine would make a
    quick request slow."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.prepared: dict[object, str] = {}
        self.finished: dict[object, str] = {}
        self.prepare_s = 0.0
        prepare, finish, push = FakeAdapter.prepare, FakeAdapter.finish, Lane.push

        def noted(adapter: FakeAdapter, request: Request) -> Any:
            self.prepared.setdefault(request.state, threading.current_thread().name)
            return prepare(adapter, request)

        def ended(adapter: FakeAdapter, prepared: Any, readout: Any) -> Any:
            self.finished[prepared.request.state] = threading.current_thread().name
            return finish(adapter, prepared, readout)

        def timed(lane: Lane, ticket: Ticket, cost: Cost) -> None:
            ticket.stamps.prepare_end = ticket.stamps.prepare_start + self.prepare_s
            push(lane, ticket, cost)

        monkeypatch.setattr(Lane, "push", timed)
        monkeypatch.setattr(FakeAdapter, "prepare", noted)
        monkeypatch.setattr(FakeAdapter, "finish", ended)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    return Threads(monkeypatch)


@pytest.fixture
def executor() -> FakeExecutor:
    return FakeExecutor()


@pytest.fixture
def engine(threads: Threads, executor: FakeExecutor) -> Iterator[Engine]:
    with Engine([fake_model(executor=executor)]) as running:
        yield running
        executor.gate.set()


def idle(engine: Engine) -> None:
    end = time.monotonic() + SOON_S
    while engine._running()[1]._open:
        assert time.monotonic() < end
        time.sleep(0.0005)


def here() -> str:
    return threading.current_thread().name


def test_an_idle_engine_prepares_a_small_request_on_its_callers_thread(engine, threads) -> None:
    engine.submit(Request("small", WET)).result(SOON_S)
    assert threads.prepared["small"] == here()


@pytest.mark.parametrize("state", ["x" * (AT_ONCE_SIZE + 1), "ü" * (AT_ONCE_SIZE // 3 + 1)])
def test_a_request_of_much_text_is_prepared_by_a_worker(engine, threads, state) -> None:
    engine.submit(Request(state, WET)).result(SOON_S)
    assert threads.prepared[state].startswith("systone-prepare")


def test_a_request_with_an_image_is_prepared_by_a_worker(engine, threads) -> None:
    engine.submit(Request("s", WET, assets={"a": Asset(b"", "png")})).result(SOON_S)
    assert threads.prepared["s"].startswith("systone-prepare")


def test_a_busy_engine_prepares_on_its_workers(engine, threads, executor) -> None:
    executor.gate.clear()
    executor.entered.clear()
    holder = engine.submit(Request("holder", WET))
    assert executor.entered.wait(SOON_S)
    behind = engine.submit(Request("behind", WET))
    executor.gate.set()
    assert holder.result(SOON_S)
    assert behind.result(SOON_S)
    assert threads.prepared["behind"].startswith("systone-prepare")
    idle(engine)
    engine.submit(Request("later", WET)).result(SOON_S)
    assert threads.prepared["later"] == here()


def test_a_model_that_prepares_slowly_is_left_to_the_workers_until_it_is_quick(
    engine, threads
) -> None:
    threads.prepare_s = 5 * AT_ONCE_S
    names = []
    for i in range(3):
        engine.submit(Request(f"slow {i}", WET)).result(SOON_S)
        names.append(threads.prepared[f"slow {i}"])
        idle(engine)
    assert names[0] == here()  # nothing was known of it
    assert all(name.startswith("systone-prepare") for name in names[1:])
    threads.prepare_s = 0.0
    for i in range(40):
        engine.submit(Request(f"quick {i}", WET)).result(SOON_S)
        idle(engine)
    assert threads.prepared["quick 39"] == here()


def test_long_requests_say_nothing_of_how_small_ones_are_prepared(engine, threads) -> None:
    threads.prepare_s = 20 * AT_ONCE_S
    engine.submit(Request("x" * (AT_ONCE_SIZE + 1), WET)).result(SOON_S)
    idle(engine)
    threads.prepare_s = 0.0
    engine.submit(Request("small", WET)).result(SOON_S)
    assert threads.prepared["small"] == here()


def test_the_device_thread_finishes_what_nobody_waits_behind(engine, threads) -> None:
    engine.submit(Request("alone", WET)).result(SOON_S)
    assert threads.finished["alone"] == "systone-device"


def test_the_device_thread_leaves_finishing_when_others_wait_for_it(
    engine, threads, executor
) -> None:
    executor.gate.clear()
    executor.entered.clear()
    pending = [engine.submit(Request("first", WET))]
    assert executor.entered.wait(SOON_S)
    pending.append(engine.submit(Request("second", WET)))
    await_waiting(engine, 1)
    executor.gate.set()
    for one in pending:
        one.result(SOON_S)
    assert threads.finished["first"].startswith("systone-finish")
    assert not pending[0].stamps.alone
    assert pending[1].stamps.alone


@pytest.mark.parametrize(("awake_s", "who"), [(0.0, "systone-reader"), (LONG_S, "systone-device")])
def test_the_thread_that_waits_for_the_device_finishes_small_batches(
    threads, awake_s: float, who: str
) -> None:
    config = EngineConfig(awake_s=awake_s)
    with Engine([fake_model(executor=LaterExecutor())], config) as engine:
        engine.submit(Request("alone", WET)).result(SOON_S)
    assert threads.finished["alone"] == who


def test_a_device_thread_that_is_awake_prepares_the_next_request(threads) -> None:
    config = EngineConfig(awake_s=LONG_S)
    with Engine([fake_model(executor=LaterExecutor())], config) as engine:
        engine.submit(Request("first", WET)).result(SOON_S)
        idle(engine)
        end = time.monotonic() + SOON_S
        while not engine._running()[1]._bell.asleep:  # it rehearses once more before
            assert time.monotonic() < end
        engine.submit(Request("second", WET)).result(SOON_S)
        engine.submit(Request("refuse", WET))
    assert threads.prepared["first"] == here()  # it had slept
    assert threads.prepared["second"] == "systone-device"


def test_a_large_batch_is_finished_by_a_worker(engine, threads, executor) -> None:
    executor.gate.clear()
    executor.entered.clear()
    holder = engine.submit(Request("holder", WET))
    assert executor.entered.wait(SOON_S)
    many = [engine.submit(Request(f"s{i}", WET)) for i in range(FEW + 1)]
    await_waiting(engine, len(many))
    executor.gate.set()
    for one in (holder, *many):
        one.result(SOON_S)
    assert {threads.finished[f"s{i}"] for i in range(len(many))} == {"systone-finish-0"}


@pytest.mark.parametrize(
    ("state", "outcome"),
    [("plain", None), ("refuse", RequestError), ("crash-prepare", EngineFaultError)],
)
def test_whoever_submits_is_told_of_the_outcome_once(engine, state, outcome) -> None:
    told: list[Pending] = []
    done = threading.Event()

    def settled(pending: Pending) -> None:
        told.append(pending)
        done.set()

    pending = engine.submit(Request(state, WET), settled=settled)
    assert done.wait(SOON_S)
    assert told == [pending]
    if outcome is None:
        assert pending.result(0).answers == {"wet": NoulAnswer(fake_noul(state, "Is it wet?"))}
    else:
        assert isinstance(pending.exception(0), outcome)
        assert pending.done()


def test_nobody_is_told_of_a_request_that_was_refused_at_once(executor) -> None:
    with Engine([fake_model(executor=executor)], EngineConfig(max_queue=1)) as engine:
        executor.gate.clear()
        executor.entered.clear()
        holder = engine.submit(Request("holder", WET))
        assert executor.entered.wait(SOON_S)
        waiting = engine.submit(Request("waiting", WET))
        told: list[Pending] = []
        with pytest.raises(CapacityError):
            engine.submit(Request("one too many", WET), settled=told.append)
        executor.gate.set()
        assert holder.result(SOON_S)
        assert waiting.result(SOON_S)
    assert told == []


def test_an_interrupt_while_preparing_takes_the_request_out(engine, monkeypatch) -> None:
    def interrupted(adapter: FakeAdapter, request: Request) -> Any:
        raise KeyboardInterrupt

    told: list[Pending] = []
    with monkeypatch.context() as patched:
        patched.setattr(FakeAdapter, "prepare", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.submit(Request("x", WET), settled=told.append)
    assert [pending.cancelled() for pending in told] == [True]
    assert engine.tally().outcomes["cancelled"] == 1
    assert engine.decide("goes on", WET)


def test_a_fault_of_ours_while_preparing_here_fails_the_engine(
    engine, executor, monkeypatch
) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("bug in the pipeline")

    monkeypatch.setattr(pipeline, "prepare", broken)
    pending = engine.submit(Request("x", WET))
    with pytest.raises(EngineDownError, match="a worker broke: RuntimeError"):
        pending.result(SOON_S)
    end = time.monotonic() + SOON_S
    while not executor.closed:  # the device thread was told, and let go of its device
        assert time.monotonic() < end
        time.sleep(0.001)
