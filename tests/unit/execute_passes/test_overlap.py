"""Batches on a runner that is given the next pass before it is done with one: nothing is lost,
mixed up or waited for too early. The runner notes the order of what is asked of it."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systone.errors import EngineDownError, EngineFaultError
from systone.execute.base import OverlappingRunner
from systone.execute.passes import PassExecutor
from systone.models.base import Readout
from systone.plan import PassBudget, PassTables
from tests.unit.execute_passes.test_passes import (
    HashRunner,
    budgets,
    prepared,
    request_of,
    wanted,
)
from tests.unit.plan.walker import requests


@dataclass
class Later(HashRunner):
    """Scores exist once the last part was waited for. `parts` of the n-th pass; `breaks[n]` is
    raised by the step of that name."""

    pass_tokens: int = 10**6
    whole_tokens: int = 10**6
    pass_seconds: dict[int, float] = field(default_factory=dict)
    parts: dict[int, int] = field(default_factory=dict)
    breaks: dict[int, tuple[str, Exception]] = field(default_factory=dict)
    log: list[tuple[str, int]] = field(default_factory=list)
    begun: int = 0

    def begin(self, tables: PassTables) -> "Launched":
        self.begun += 1
        return Launched(self, tables, self.begun, self.parts.get(self.begun, 1))


@dataclass
class Launched:
    runner: Later
    tables: PassTables
    number: int
    parts: int
    waited: int = 0
    seconds: float = 0.0

    def _note(self, step: str) -> None:
        name, error = self.runner.breaks.get(self.number, ("", None))
        if name == step:
            raise error
        self.runner.log.append((step, self.number))

    def enqueue(self) -> bool:
        self._note("enqueue")
        self.parts -= 1
        return self.parts > 0

    def wait(self) -> None:
        self._note("wait")
        self.waited += 1
        self.seconds += 0.5

    def take(self) -> np.ndarray:
        self._note("take")
        assert self.parts == 0
        return HashRunner.run(self.runner, self.tables)


def test_the_runner_is_seen_to_overlap() -> None:
    assert isinstance(Later(), OverlappingRunner)
    assert not isinstance(HashRunner(), OverlappingRunner)
    assert PassExecutor(Later(), PassBudget()).begin([]).waits
    assert not PassExecutor(Later(), PassBudget(rows=1)).begin([]).waits  # the serial mode


def test_the_next_batch_is_enqueued_before_the_last_is_taken() -> None:
    runner = Later()
    executor = PassExecutor(runner, PassBudget())
    first = executor.begin([prepared(request_of(1))])
    assert first.enqueue() is False
    second = executor.begin([prepared(request_of(2))])
    assert second.enqueue() is False
    for flight in (first, second):
        flight.wait()
    assert runner.log == [
        ("enqueue", 1), ("enqueue", 2), ("wait", 1), ("take", 1), ("wait", 2), ("take", 2)
    ]  # fmt: skip
    for name, flight in ((1, first), (2, second)):
        (outcome,) = flight.results()
        assert outcome.values[:, 0].tolist() == wanted(request_of(name))
        assert outcome.stats["inference_seconds"] == 0.5


@given(
    st.lists(requests(), min_size=1, max_size=4),
    budgets,
    st.dictionaries(st.integers(1, 6), st.integers(1, 3), max_size=4),
    st.data(),
)
@settings(max_examples=60, deadline=None)
def test_scores_come_back_whatever_is_enqueued_before_it_is_waited_for(batch, budget, parts, data):
    runner = Later(parts=parts, pass_tokens=1)
    flight = PassExecutor(runner, budget).begin([prepared(rows) for rows in batch])
    more, owed = True, 0
    while more or owed:
        if more and (not owed or data.draw(st.booleans())):
            more, owed = flight.enqueue(), owed + 1
        else:
            flight.wait()
            owed -= 1
    for rows, outcome in zip(batch, flight.results(), strict=True):
        assert isinstance(outcome, Readout)
        assert outcome.values[:, 0].tolist() == wanted(rows)


@pytest.mark.parametrize("step", ["enqueue", "wait", "take"])
def test_a_fault_in_one_pass_fails_its_requests_only(step: str) -> None:
    runner = Later(breaks={2: (step, RuntimeError("kaput"))})
    executor = PassExecutor(runner, PassBudget(rows=2))
    batch = [request_of(i) for i in range(4)]
    flight = executor.begin([prepared(rows) for rows in batch])
    enqueued = 1
    while flight.enqueue():
        enqueued += 1
    for _ in range(enqueued):
        flight.wait()
    outcomes = flight.results()
    assert isinstance(outcomes[1], EngineFaultError)
    assert isinstance(outcomes[1].__cause__, RuntimeError)
    for i in (0, 2, 3):
        assert outcomes[i].values[:, 0].tolist() == wanted(batch[i])


def test_a_pass_that_breaks_half_way_leaves_the_rest_running() -> None:
    runner = Later(parts={1: 3})
    flight = PassExecutor(runner, PassBudget(rows=2)).begin(
        [prepared(request_of(1)), prepared(request_of(2))]
    )
    assert flight.enqueue()
    runner.breaks[1] = ("enqueue", RuntimeError("kaput"))
    assert flight.enqueue() is False
    flight.wait()
    flight.wait()
    failed, fine = flight.results()
    assert isinstance(failed, EngineFaultError)
    assert fine.values[:, 0].tolist() == wanted(request_of(2))


@pytest.mark.parametrize("step", ["enqueue", "wait", "take"])
def test_a_lost_device_is_raised(step: str) -> None:
    runner = Later(breaks={1: (step, EngineDownError("gone"))})
    flight = PassExecutor(runner, PassBudget()).begin([prepared(request_of(1))])

    def run() -> None:
        flight.enqueue()
        flight.wait()

    with pytest.raises(EngineDownError):
        run()


def test_a_request_that_comes_alone_may_fill_the_largest_pass() -> None:
    rows = request_of(1, 8)  # 30 shared tokens and 8 times 5
    for others, passes in (([], 1), ([prepared(request_of(2))], 3)):
        runner = Later(pass_tokens=100)
        executor = PassExecutor(runner, PassBudget(tokens=50))
        executor.execute([prepared(rows), *others])
        assert len(runner.ran) == passes


def test_what_was_measured_bounds_a_batch() -> None:
    curve = {512: 0.011, 1024: 0.021, 2048: 0.0445, 2560: 0.0525, 4096: 0.0827}
    for most, whole, found in ((4096, 9999, 2560), (4096, 2560, 2560), (4096, 900, 900)):
        runner = Later(pass_seconds=curve, whole_tokens=whole)
        executor = PassExecutor(runner, PassBudget(tokens=most))
        executor.start()
        assert executor.max_batch_tokens == found
        assert executor.whole_tokens == whole
        assert executor.describe()["batch_tokens"] == found
