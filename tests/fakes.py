"""Fakes that make scheduler, engine and server tests fast: a clock, a model, a device.

The fake model's answers are a function of the request alone, so a test can tell whose answer it
got; `FakeExecutor` can be slow, blocked, broken or lost on command.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from systone.engine import Engine
from systone.errors import EngineFaultError, RequestError
from systone.models.base import (
    Adapter,
    Cost,
    Executor,
    Flight,
    Limits,
    Loaded,
    ModelCard,
    Prepared,
    Readout,
)
from systone.protocol.types import (
    Answer,
    Choice,
    ChoiceAnswer,
    Decision,
    Noul,
    NoulAnswer,
    Question,
    Request,
    Score,
    ScoreAnswer,
    Usage,
)

MIXED = Request(
    "The crate is green.",
    {
        "wet": Noul("Is it wet?"),
        "colour": Choice("Which colour?", {"green": None, "red": None}),
        "size": Score("How large?", ("small", "large")),
    },
)


def await_waiting(engine: Engine, count: int, limit_s: float = 10.0) -> None:
    """Until so many prepared requests wait for the device."""
    lanes, end = engine._running()[1]._lanes.values(), time.monotonic() + limit_s
    while sum(map(len, lanes)) < count:
        assert time.monotonic() < end, "they were never prepared"
        time.sleep(0.001)


class FakeClock:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def fake_noul(state: object, instructions: object = None) -> float:
    """The fake model's probability of yes: float32 in 0..1, by the text alone."""
    digest = zlib.crc32(repr((state, instructions)).encode())
    return float(np.float32(digest / 2**32))


def num_rows(question: Question) -> int:
    return 1 if isinstance(question, Noul) else len(question.criteria)


class FakeAdapter(Adapter):
    """One row per candidate; a row's score is `fake_noul`. `tokens`: cost of a request.

    A state of "refuse" is refused; "crash-prepare" and "crash-finish" are bugs in those steps."""

    def __init__(
        self,
        name: str = "fake",
        *,
        aliases: tuple[str, ...] = (),
        tokens: Callable[[Request], int] = lambda request: 10,
    ) -> None:
        self.card = ModelCard(
            name=name,
            description="fake model for tests, demo-grade",
            release_date="2026-01-01",
            revision="r1",
            kinds=frozenset({"choice", "noul", "score"}),
            calibrated=False,
            confidence="none",
            usage_rule="ten tokens a request",
            limits=Limits(),
            aliases=aliases,
        )
        self.tokens = tokens
        self.prepared = 0

    def prepare(self, request: Request) -> Prepared:
        self.prepared += 1
        if request.state == "refuse":
            raise RequestError.at(("state",), "the fake model refuses this state")
        if request.state == "crash-prepare":
            raise ZeroDivisionError
        rows = sum(num_rows(q) for q in request.questions.values())
        tokens = self.tokens(request)
        return Prepared(request, Cost(tokens, rows), input_tokens=tokens, work=request.state)

    def finish(self, prepared: Prepared, readout: Readout) -> Decision:
        if prepared.request.state == "crash-finish":
            raise ZeroDivisionError
        if not np.isfinite(readout.values).all():
            raise EngineFaultError("a score is not finite", code="non_finite_output")
        values = [float(v) for v in readout.values[:, 0]]
        answers: dict[str, Answer] = {}
        for name, question in prepared.request.questions.items():
            count = num_rows(question)
            answers[name] = _answer(question, values[:count])
            values = values[count:]
        return Decision(self.card.name, answers, Usage(prepared.input_tokens))


def _answer(question: Question, values: list[float]) -> Answer:
    if isinstance(question, Noul):
        return NoulAnswer(values[0])
    total = sum(values) or 1.0
    probabilities = [value / total for value in values]
    best = max(range(len(values)), key=lambda i: probabilities[i])
    if isinstance(question, Choice):
        names = list(question.criteria)
        return ChoiceAnswer(names[best], dict(zip(names, probabilities, strict=True)), 0.5)
    mean = sum(i * p for i, p in enumerate(probabilities))
    return ScoreAnswer(mean, tuple(question.criteria), probabilities, 0.5)


class FakeExecutor(Executor[Prepared]):
    """`seconds(batch)`: how long a batch takes; `gate`: batches wait while it is cleared.

    `fault(batch)` may raise (the whole batch fails) or return a replacement for the results."""

    def __init__(self, seconds: Callable[[Sequence[Prepared]], float] | None = None) -> None:
        self.seconds = seconds
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.fault: Callable[[Sequence[Prepared]], Sequence[Any] | None] | None = None
        self.batches: list[list[object]] = []
        self.threads: set[str] = set()
        self.started = False
        self.closed = 0
        self.fail_start: Exception | None = None

    def start(self) -> None:
        self.threads.add(threading.current_thread().name)
        if self.fail_start is not None:
            raise self.fail_start
        self.started = True

    def execute(self, batch: Sequence[Prepared]) -> Sequence[Readout | Exception]:
        self.threads.add(threading.current_thread().name)
        self.batches.append([prepared.request.state for prepared in batch])
        del self.batches[:-1000]  # a long run must not look like a leak of the server
        self.entered.set()
        self.gate.wait()
        if self.seconds is not None:
            time.sleep(self.seconds(batch))
        if self.fault is not None and (replaced := self.fault(batch)) is not None:
            return replaced
        return [readout(prepared) for prepared in batch]

    def close(self) -> None:
        self.threads.add(threading.current_thread().name)
        self.closed += 1
        self.gate.set()

    def describe(self) -> Mapping[str, Any]:
        return {"device": "fake", "batches": len(self.batches)}


class LaterExecutor(FakeExecutor):
    """A fake device that works while the next batch is enqueued: `execute` runs in the wait for the
    last of a batch's `parts`."""

    parts = 1

    def begin(self, batch: Sequence[Prepared]) -> Flight:
        return _Later(self, batch)


class _Later(Flight):
    waits = True

    def __init__(self, executor: LaterExecutor, batch: Sequence[Prepared]) -> None:
        self._executor, self._batch = executor, batch
        self._enqueued = self._waited = 0
        self._results: Sequence[Readout | Exception] = ()

    def enqueue(self) -> bool:
        self._enqueued += 1
        return self._enqueued < self._executor.parts

    def done(self) -> bool:
        self._executor.entered.set()
        return self._executor.gate.is_set()

    def wait(self) -> None:
        self._waited += 1
        if self._waited == self._executor.parts:
            self._results = self._executor.execute(self._batch)

    def results(self) -> Sequence[Readout | Exception]:
        return self._results


def readout(prepared: Prepared) -> Readout:
    """The fake device's right answer for one request."""
    values: list[float] = []
    for question in prepared.request.questions.values():
        state, first = prepared.request.state, question.instructions
        values += [fake_noul(state, i or first) for i in range(num_rows(question))]
    return Readout(np.array(values, dtype=np.float32).reshape(-1, 1))


def fake_model(
    name: str = "fake",
    *,
    executor: FakeExecutor | None = None,
    warmup: Sequence[Request] = (MIXED,),
    **adapter: Any,
) -> Loaded:
    return Loaded(FakeAdapter(name, **adapter), executor or FakeExecutor(), warmup)
