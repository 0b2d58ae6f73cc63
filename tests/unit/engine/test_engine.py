import asyncio
import sys
import threading
import time

import numpy as np
import pytest

from systone.config import EngineConfig, ModelSettings
from systone.engine import Engine
from systone.errors import (
    CapacityError,
    ConfigError,
    DeadlineError,
    EngineDownError,
    EngineFaultError,
    RequestError,
)
from systone.models.base import Readout
from systone.protocol.faults import sentence_of
from systone.protocol.types import (
    Choice,
    ChoiceAnswer,
    Noul,
    NoulAnswer,
    Request,
    Score,
    ScoreAnswer,
)
from tests.fakes import (
    MIXED,
    FakeExecutor,
    LaterExecutor,
    await_waiting,
    fake_model,
    fake_noul,
)
from tests.within import seconds, within

WET = {"wet": Noul("Is it wet?")}


def wait_until(condition) -> None:
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.001)


@pytest.fixture
def executor() -> FakeExecutor:
    return FakeExecutor()


@pytest.fixture
def engine(executor):
    with Engine([fake_model(executor=executor)]) as running:
        yield running
        executor.gate.set()


def hold(engine: Engine, executor: FakeExecutor):
    """Occupy the device with one request until the executor's gate is set."""
    executor.gate.clear()
    executor.entered.clear()
    pending = engine.submit(Request("holder", WET))
    assert executor.entered.wait(5)
    return pending


def test_decide_answers_every_kind(engine) -> None:
    decision = engine.decide(MIXED.state, MIXED.questions)
    assert decision.model == "fake"
    assert decision.answers["wet"] == NoulAnswer(fake_noul(MIXED.state, "Is it wet?"))
    assert isinstance(decision.answers["colour"], ChoiceAnswer)
    assert isinstance(decision.answers["size"], ScoreAnswer)
    assert list(decision.answers) == list(MIXED.questions)


async def test_adecide_answers_many_at_once_with_their_own(engine) -> None:
    states = [f"crate {i}" for i in range(100)]
    decisions = await asyncio.gather(*(engine.adecide(state, WET) for state in states))
    for state, decision in zip(states, decisions, strict=True):
        assert decision.answers["wet"] == NoulAnswer(fake_noul(state, "Is it wet?"))


async def test_cancelling_the_task_takes_the_request_out(engine, executor) -> None:
    holder = hold(engine, executor)
    task = asyncio.create_task(engine.adecide("leaves", WET))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    executor.gate.set()
    holder.result(5)
    assert engine.tally().outcomes["cancelled"] == 1
    assert ["leaves"] not in executor.batches


def test_everything_of_a_device_happens_on_one_thread() -> None:
    executors = [FakeExecutor(), FakeExecutor()]
    models = [fake_model(f"m{i}", executor=e) for i, e in enumerate(executors)]
    with Engine(models) as engine:
        for name in ("m0", "m1"):
            engine.decide("x", WET, name)
    assert executors[0].threads == executors[1].threads == {"systone-device"}
    assert [e.closed for e in executors] == [1, 1]


def test_waiting_requests_share_a_batch_in_order(engine, executor) -> None:
    holder = hold(engine, executor)
    pending = []
    for i in range(5):
        pending.append(engine.submit(Request(f"s{i}", WET)))
        await_waiting(engine, i + 1)
    executor.gate.set()
    holder.result(5)
    for one in pending:
        one.result(5)
    batches = executor.batches[executor.batches.index(["holder"]) + 1 :]
    assert sorted(state for batch in batches for state in batch) == [f"s{i}" for i in range(5)]
    assert len(batches) < 5


def test_pack_off_runs_one_request_a_batch(executor) -> None:
    config = EngineConfig(model=ModelSettings(pack=False))
    with Engine([fake_model(executor=executor)], config) as engine:
        holder = hold(engine, executor)
        pending = [engine.submit(Request(f"s{i}", WET)) for i in range(4)]
        executor.gate.set()
        for one in (holder, *pending):
            one.result(5)
    assert all(len(batch) == 1 for batch in executor.batches)


def test_an_executor_that_gains_nothing_from_batches_gets_single_requests(executor) -> None:
    executor.max_batch_requests = 1
    with Engine([fake_model(executor=executor)]) as engine:
        holder = hold(engine, executor)
        pending = [engine.submit(Request(f"s{i}", WET)) for i in range(4)]
        executor.gate.set()
        for one in (holder, *pending):
            one.result(5)
    assert all(len(batch) == 1 for batch in executor.batches)


def test_a_batch_holds_no_more_tokens_than_the_executor_gains_by(executor) -> None:
    executor.max_batch_tokens = 20  # two requests of ten
    with Engine([fake_model(executor=executor)]) as engine:
        holder = hold(engine, executor)
        pending = [engine.submit(Request(f"s{i}", WET)) for i in range(4)]
        await_waiting(engine, 4)
        executor.gate.set()
        for one in (holder, *pending):
            one.result(5)
    assert [len(batch) for batch in executor.batches[-2:]] == [2, 2]


def test_measured_times_are_known_to_admission(executor) -> None:
    executor.pass_seconds = {10: 5.0, 20: 10.0}
    with Engine([fake_model(executor=executor)], EngineConfig(warmup=False)) as engine:
        hold(engine, executor)
        with pytest.raises(CapacityError, match="can't be answered in time"):
            engine.submit(Request("s", WET), deadline_s=1.0).result(5)
        executor.gate.set()


@pytest.mark.parametrize("requests", [1, 12])
def test_batches_of_a_device_that_is_waited_for_are_answered(requests: int) -> None:
    executor = LaterExecutor()
    with Engine([fake_model(executor=executor)], EngineConfig(awake_s=0.0)) as engine:
        holder = hold(engine, executor)
        pending = [engine.submit(Request(f"s{i}", WET)) for i in range(requests)]
        executor.gate.set()
        for i, one in enumerate((holder, *pending)):
            state = f"s{i - 1}" if i else "holder"
            assert one.result(5).answers == {"wet": NoulAnswer(fake_noul(state, "Is it wet?"))}
    assert "systone-reader" in executor.threads


def test_names_aliases_and_revisions_find_their_model() -> None:
    models = [fake_model("one", aliases=("uno",)), fake_model("two")]
    with Engine(models) as engine:
        for name, model in {
            None: "one",
            "one": "one",
            "uno": "one",
            "one@r1": "one",
            "jev-latest": "one",
            "jev-preview": "one",
            "two": "two",
        }.items():
            assert engine.decide("x", WET, name).model == model
        with pytest.raises(RequestError) as caught:
            engine.decide("x", WET, "three")
        assert (caught.value.status, caught.value.code) == (404, "unknown_model")
        assert "one" in str(caught.value)
        assert "two" in str(caught.value)
        assert engine.cards[0].aliases == ("uno", "jev-latest", "jev-preview")
        assert engine.cards[1].aliases == ()
        assert engine.exact_name("jev-latest") == "one@r1"


def test_an_alias_of_several_models_means_the_first_and_a_name_means_its_owner() -> None:
    """Two sizes of a family share its short names, and an alias may be a neighbour's own name."""
    models = [
        fake_model("big", aliases=("family", "small")),
        fake_model("small", aliases=("family", "tiny")),
    ]
    with Engine(models) as engine:
        assert engine.cards[0].aliases == ("family", "jev-latest", "jev-preview")
        assert engine.cards[1].aliases == ("tiny",)
        for name, owner in (("family", "big"), ("small", "small"), ("tiny", "small")):
            assert engine.decide("x", WET, name).model == owner


def test_jev_aliases_can_be_refused() -> None:
    with (
        Engine([fake_model()], EngineConfig(jev_aliases=False)) as engine,
        pytest.raises(RequestError, match="jev-latest"),
    ):
        engine.decide("x", WET, "jev-latest")


@pytest.mark.parametrize("models", [[], [fake_model("a"), fake_model("b"), fake_model("a")]])
def test_no_model_or_two_of_one_name_stop_the_start(models) -> None:
    with pytest.raises(ConfigError):
        Engine(models).start()


def test_warm_up_runs_real_requests_and_is_not_counted(executor) -> None:
    with Engine([fake_model(executor=executor)]) as engine:
        assert executor.batches == [[MIXED.state]] * 2
        assert engine.tally().admitted == 0


def test_warm_up_can_be_left_out(executor) -> None:
    with Engine([fake_model(executor=executor)], EngineConfig(warmup=False)):
        assert executor.batches == []


@pytest.mark.parametrize("state", ["refuse", "crash-finish"])
def test_a_model_that_fails_its_warm_up_stops_the_start(executor, state) -> None:
    request = Request(state, MIXED.questions)
    with pytest.raises((ConfigError, ZeroDivisionError)):
        Engine([fake_model(executor=executor, warmup=[request])]).start()
    assert executor.closed == 1


def test_a_warm_up_that_yields_an_error_entry_stops_the_start(executor) -> None:
    executor.fault = lambda batch: [EngineFaultError("nan", code="non_finite_output")]
    with pytest.raises(ConfigError, match="fake failed its warm-up"):
        Engine([fake_model(executor=executor)]).start()


def test_a_failed_start_closes_what_was_opened() -> None:
    first, second = FakeExecutor(), FakeExecutor()
    second.fail_start = ConfigError("weights.safetensors is truncated")
    engine = Engine([fake_model("a", executor=first), fake_model("b", executor=second)])
    with pytest.raises(ConfigError, match="truncated"):
        engine.start()
    assert (first.closed, second.closed) == (1, 1)
    assert engine.health().status == "starting"
    engine.close()


def test_an_engine_that_is_not_started_refuses() -> None:
    engine = Engine([fake_model()])
    assert engine.cards == ()
    for call in (engine.require_room, engine.tally, lambda: engine.decide("x", WET)):
        with pytest.raises(EngineDownError, match="loading"):
            call()


def test_a_closed_engine_refuses_and_closing_twice_is_harmless(executor) -> None:
    engine = Engine([fake_model(executor=executor)]).start()
    engine.close()
    engine.close()
    assert executor.closed == 1
    with pytest.raises(EngineDownError, match="draining"):
        engine.decide("x", WET)


def test_close_finishes_accepted_requests(executor) -> None:
    engine = Engine([fake_model(executor=executor)]).start()
    holder = hold(engine, executor)
    waiting = engine.submit(Request("waiting", WET))
    threading.Timer(0.05, executor.gate.set).start()
    engine.close()
    assert holder.result(0).answers
    assert waiting.result(0).answers


def test_close_gives_up_after_the_drain_time(executor) -> None:
    engine = Engine([fake_model(executor=executor)], EngineConfig(drain_s=0.05)).start()
    holder = hold(engine, executor)
    waiting = engine.submit(Request("waiting", WET))
    threading.Timer(0.3, executor.gate.set).start()
    engine.close()
    for pending in (holder, waiting):
        assert isinstance(pending.exception(0), EngineDownError)


def test_the_switch_interval_is_set_for_the_process() -> None:
    before = sys.getswitchinterval()
    with Engine([fake_model()], EngineConfig(switch_interval_s=0.003)):
        assert sys.getswitchinterval() == pytest.approx(0.003)
    sys.setswitchinterval(before)


def test_stamps_say_where_the_time_went(engine) -> None:
    pending = engine.submit(MIXED)
    pending.result(5)
    spans = pending.stamps.durations_s()
    assert list(spans) == ["prepare", "queue", "device", "finish"]
    assert all(seconds >= 0 for seconds in spans.values())


def test_a_full_queue_refuses(executor) -> None:
    with Engine([fake_model(executor=executor)], EngineConfig(max_queue=2)) as engine:
        holder = hold(engine, executor)
        pending = [engine.submit(Request(f"s{i}", WET)) for i in range(2)]

        def refused() -> None:
            with pytest.raises(CapacityError) as caught:
                engine.submit(Request("one too many", WET))
            with pytest.raises(CapacityError):
                engine.require_room()
            assert caught.value.status == 429
            assert caught.value.retry_after_s >= 1

        within(0.05, lambda: seconds(refused))
        executor.gate.set()
        for one in (holder, *pending):
            one.result(5)
        assert engine.decide("room again", WET)


def test_a_deadline_that_passes_in_the_queue_is_an_error(engine, executor) -> None:
    holder = hold(engine, executor)
    pending = engine.submit(Request("late", WET), deadline_s=0.02)
    assert isinstance(pending.exception(5), DeadlineError)
    executor.gate.set()
    assert holder.result(5)
    assert ["late"] not in executor.batches


def test_health_follows_the_engine(engine, executor) -> None:
    health = engine.health()
    assert health.ready
    assert health.models[0].modes["device"] == "fake"
    assert health.models[0].calibrated is False
    holder = hold(engine, executor)
    engine.submit(Request("waiting", WET))
    busy = engine.health()
    assert busy.ready
    assert (busy.models[0].undispatched, busy.models[0].running) == (1, 1)
    executor.gate.set()
    holder.result(5)


def nan(prepared) -> Readout:
    return Readout(np.full((prepared.cost.rows, 1), np.nan, dtype=np.float32))


def test_a_score_that_is_not_finite_fails_only_its_request(engine, executor) -> None:
    from tests.fakes import readout

    def poison(batch):
        return [
            nan(prepared) if prepared.request.state == "s3" else readout(prepared)
            for prepared in batch
        ]

    holder = hold(engine, executor)
    executor.fault = poison
    pending = [engine.submit(Request(f"s{i}", WET)) for i in range(8)]
    executor.gate.set()
    holder.result(5)
    for i, one in enumerate(pending):
        if i == 3:
            error = one.exception(5)
            assert isinstance(error, EngineFaultError)
            assert error.code == "non_finite_output"
        else:
            answers = one.result(5).answers
            assert answers["wet"] == NoulAnswer(fake_noul(f"s{i}", "Is it wet?"))
    assert engine.tally().outcomes["non_finite_output"] == 1
    assert engine.health().ready


@pytest.mark.parametrize(
    ("results", "code"),
    [
        (lambda batch: [], "result_mismatch"),
        (lambda batch: [Readout(np.zeros((2, 1), np.float32))] * len(batch), "result_mismatch"),
        (lambda batch: [Readout(np.zeros(1, np.float32))] * len(batch), "result_mismatch"),
        (lambda batch: [ValueError("entry")] * len(batch), "inference_failed"),
        (lambda batch: 1 // 0, "inference_failed"),
    ],
)
def test_faults_of_the_device_are_500s_of_that_request(engine, executor, results, code) -> None:
    executor.fault = results
    with pytest.raises(EngineFaultError) as caught:
        engine.decide("x", WET)
    assert caught.value.code == code
    executor.fault = None
    assert engine.decide("x", WET)
    assert engine.health().ready


@pytest.mark.parametrize("step", ["prepare", "finish"])
def test_bugs_in_cpu_steps_are_500s_of_that_request(engine, step) -> None:
    with pytest.raises(EngineFaultError) as caught:
        engine.decide(f"crash-{step}", WET)
    assert caught.value.code == f"{step}_failed"
    assert engine.decide("x", WET)


def test_a_refused_request_never_reaches_the_device(engine, executor) -> None:
    before = len(executor.batches)
    with pytest.raises(RequestError, match="refuses"):
        engine.decide("refuse", WET)
    assert len(executor.batches) == before


def test_memory_that_runs_out_fails_one_batch_and_is_retryable(engine, executor) -> None:
    def no_room(batch):
        raise CapacityError("no device memory", retry_after_s=1.0, status=503)

    executor.fault = no_room
    with pytest.raises(CapacityError) as caught:
        engine.decide("x", WET)
    assert caught.value.status == 503
    executor.fault = None
    assert engine.decide("x", WET)


def test_a_lost_device_is_health_first_then_everyones_error(engine, executor) -> None:
    def lost(batch):
        raise EngineDownError("CUDA error: device-side assert")

    seen = []
    holder = hold(engine, executor)
    executor.fault = lost
    waiting = engine.submit(Request("waiting", WET))
    for pending in (holder, waiting):
        pending.add_done_callback(lambda _: seen.append(engine.health().status))
    executor.gate.set()
    for pending in (holder, waiting):
        assert isinstance(pending.exception(5), EngineDownError)
    wait_until(lambda: len(seen) == 2)  # callbacks run after `exception` returns
    assert seen == ["failed", "failed"]
    with pytest.raises(EngineDownError, match="device-side assert"):
        engine.decide("new", WET)
    assert "device-side assert" in engine.health().reason
    wait_until(lambda: executor.closed == 1)


def test_a_frozen_device_fails_its_callers_within_the_limit(executor) -> None:
    with Engine([fake_model(executor=executor)], EngineConfig(max_batch_s=0.2)) as engine:
        holder = hold(engine, executor)
        waiting = engine.submit(Request("waiting", WET))
        began = time.monotonic()
        for pending in (holder, waiting):
            assert isinstance(pending.exception(5), EngineDownError)
        assert time.monotonic() - began < 2
        assert "frozen" in engine.health().reason
        executor.gate.set()  # the late result is dropped
        wait_until(lambda: executor.closed == 1)


def test_a_worker_that_breaks_fails_the_engine(engine, monkeypatch) -> None:
    from systone import pipeline

    def broken(*args: object) -> None:
        raise RuntimeError("bug in the pipeline")

    monkeypatch.setattr(pipeline, "finish", broken)
    with pytest.raises(EngineDownError, match="a worker broke: RuntimeError"):
        engine.decide("x", WET)
    assert engine.health().status == "failed"


def test_a_long_queue_of_one_model_does_not_starve_another() -> None:
    slow, seen = FakeExecutor(lambda batch: 0.1), []
    quick = FakeExecutor(lambda batch: seen.append(len(slow.batches)) or 0.0)
    budget = ModelSettings(max_batch_requests=1)
    models = [fake_model("slow", executor=slow), fake_model("quick", executor=quick)]
    with Engine(models, EngineConfig(model=budget)) as engine:
        backlog = [engine.submit(Request(f"s{i}", WET, "slow")) for i in range(20)]
        engine.decide("x", WET, "quick")
        assert seen[0] < 5  # batches of the backlog that went first: by turns one or two
        for one in backlog:
            one.cancel()


@pytest.mark.parametrize(
    ("state", "questions", "words"),
    [
        ("x", {}, "questions: "),
        (7, WET, "state: "),
        ({"n": float("nan")}, WET, "not plain JSON"),
        ({"o": object()}, WET, "not plain JSON"),
        ("\ud800", WET, "surrogate"),
        ("x", {"": Noul("?")}, "id"),
        ("x", {"c": Choice("?", {})}, "at least one choice"),
        ("x", {"c": Choice("?", {str(i): None for i in range(256)})}, "255"),
        ("x", {"s": Score("?", "low")}, "list"),
        ("x", {"n": Noul()}, "criteria or instructions"),
    ],
)
def test_questions_asked_in_python_are_held_to_the_wires_rules(
    engine, state, questions, words
) -> None:
    with pytest.raises(RequestError) as caught:
        engine.decide(state, questions)
    assert words in sentence_of(caught.value.faults)


def test_python_values_reach_the_model_as_plain_json(engine) -> None:
    score = Score("How large?", ("small", {"name": "large"}))
    decision = engine.decide({"sizes": (1, 2)}, {"size": score})
    assert decision.answers["size"].legend == ("small", {"name": "large"})
