"""Under random faults, cancels and deadlines each caller gets one outcome, and their own answer."""

import random
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError
from typing import Any

import pytest

from systone.config import EngineConfig, ModelSettings
from systone.engine import Engine, Pending
from systone.errors import (
    CapacityError,
    DeadlineError,
    EngineDownError,
    EngineFaultError,
    RequestError,
)
from systone.protocol.types import Noul, NoulAnswer, Request
from tests.fakes import FakeExecutor, LaterExecutor, fake_model, fake_noul, readout

WET = {"wet": Noul("Is it wet?")}
STATES = ("plain", "refuse", "crash-prepare", "crash-finish", "entry", "batch")


def faults(batch: Any) -> Any:
    """Requests named `batch` break all of theirs, `entry` only itself."""
    if any(prepared.request.state == "batch" for prepared in batch):
        raise RuntimeError("kernel fault")
    return [
        RuntimeError("row fault") if prepared.request.state == "entry" else readout(prepared)
        for prepared in batch
    ]


class Callers:
    """Threads that submit, cancel at random, and record every outcome their futures report."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine = engine
        self.lock = threading.Lock()
        self.counts: Counter[int] = Counter()
        self.pending: list[tuple[str, Pending]] = []
        self.refused = 0
        self.threads = [
            threading.Thread(target=self.call, args=(random.Random(seed * 100 + i),))
            for i in range(6)
        ]

    def call(self, rng: random.Random) -> None:
        for _ in range(60):
            state = rng.choices(STATES, weights=(60, 4, 4, 4, 4, 1))[0]
            deadline_s = rng.choice((None, 0.0005, 0.005, 5.0))
            try:
                pending = self.engine.submit(Request(state, WET), deadline_s=deadline_s)
            except (CapacityError, EngineDownError, DeadlineError):
                with self.lock:
                    self.refused += 1
                continue
            with self.lock:
                self.pending.append((state, pending))
            pending.add_done_callback(self.count)
            if rng.random() < 0.2:
                time.sleep(rng.random() * 0.002)
                pending.cancel()

    def count(self, pending: Any) -> None:
        with self.lock:
            self.counts[id(pending)] += 1

    def run(self) -> None:
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()


def check(state: str, pending: Pending) -> str:
    try:
        decision = pending.result(0)
    except (CancelledError, DeadlineError, CapacityError, EngineDownError) as error:
        return type(error).__name__
    except RequestError:
        assert state == "refuse"
        return "RequestError"
    except EngineFaultError as error:  # a plain one may share a batch with a `batch`
        return f"fault: {error.code if state == 'plain' else 'own'}"
    assert state == "plain"
    assert decision.answers == {"wet": NoulAnswer(fake_noul("plain", "Is it wet?"))}
    return "answer"


def lose_device(engine: Engine, executor: FakeExecutor) -> None:
    """In the middle of the work, however slow the machine: after the tenth batch."""
    while len(executor.batches) < 10:
        time.sleep(0.001)
    engine._crashed(RuntimeError("lost"))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loses_device", [False, True])
@pytest.mark.parametrize("parts", [0, 1, 3], ids=["at once", "overlapped", "in parts"])
def test_every_accepted_request_ends_exactly_once(
    seed: int, loses_device: bool, parts: int
) -> None:
    executor = (LaterExecutor if parts else FakeExecutor)(lambda batch: 0.001)
    if isinstance(executor, LaterExecutor):
        executor.parts = parts
    config = EngineConfig(max_queue=40, model=ModelSettings(max_batch_requests=4), drain_s=10)
    with Engine([fake_model(executor=executor)], config) as engine:
        executor.fault = faults
        callers = Callers(engine, seed)
        if loses_device:
            threading.Thread(target=lose_device, args=(engine, executor), daemon=True).start()
        callers.run()
    assert len(callers.pending) + callers.refused == 6 * 60
    assert callers.counts == Counter({id(pending): 1 for _, pending in callers.pending})
    seen = Counter(check(state, pending) for state, pending in callers.pending)
    tally = engine.tally()
    assert tally.admitted == len(callers.pending) == sum(tally.outcomes.values())
    assert tally.outcomes["answered"] == seen["answer"]
    assert tally.outcomes["cancelled"] == seen["CancelledError"]
    assert tally.outcomes["expired"] == seen["DeadlineError"]
    assert seen["answer"] > 0
    assert not {name for name in seen if name.startswith("fault")} - {
        "fault: own",
        "fault: inference_failed",
    }
    assert (seen["EngineDownError"] > 0) <= loses_device
