"""Callers who leave, send nonsense, or ask before they are answered, all at once and at random."""

import random
import socket
import threading
import time
from collections import Counter

import pytest

from systone.config import EngineConfig
from systone.engine import Engine
from tests.fakes import LaterExecutor, fake_model, fake_noul
from tests.unit.server.wire import SOON_S, Replies, Served, body_of, message, noul

FOR_S = 1.5


class Caller(threading.Thread):
    """Opens connections until the time is over; `wrong`: what it should not have been told."""

    def __init__(self, served: Served, seed: int) -> None:
        super().__init__(name=f"caller-{seed}")
        self.statuses: Counter[int] = Counter()
        self.wrong: list[object] = []
        self._served = served
        self._rng = random.Random(seed)
        self._asked = 0

    def run(self) -> None:
        end = time.monotonic() + FOR_S
        while time.monotonic() < end:
            try:
                with self._served.connect() as sock:
                    self._call(sock)
            except OSError as error:
                if isinstance(error, TimeoutError):
                    self.wrong.append(error)

    def _call(self, sock: socket.socket) -> None:
        rng, replies = self._rng, Replies(sock)
        for _ in range(rng.randrange(1, 20)):
            states = [self._state() for _ in range(rng.choice((1, 1, 3)))]
            hurry = ("x-systone-deadline-ms: 3",) if rng.random() < 0.1 else ()
            sock.sendall(b"".join(message(body_of(state), *hurry) for state in states))
            if rng.random() < 0.1:
                time.sleep(rng.random() * 0.004)
                return
            if rng.random() < 0.03:
                sock.sendall(b"NONSENSE\r\n\r\n")
            for state in states:
                reply = replies.next()
                self.statuses[reply[0]] += 1
                if reply[0] == 200 and noul(reply) != fake_noul(state, "?"):
                    self.wrong.append((state, reply))
                if reply[0] == 400:
                    return
            if rng.random() < 0.3:
                time.sleep(rng.random() * 0.01)

    def _state(self) -> str:
        self._asked += 1
        return f"{self.name} {self._asked}"


@pytest.mark.parametrize("seconds", [0.0, 0.002])
@pytest.mark.parametrize("callers", [2, 10])
def test_each_gets_their_own_answers_and_every_request_one_outcome(
    seconds: float, callers: int, caplog: pytest.LogCaptureFixture
) -> None:
    executor = LaterExecutor(lambda batch: seconds)
    with Engine([fake_model(executor=executor)], EngineConfig(max_queue=400)) as engine:
        served = Served(engine)
        try:
            threads = [Caller(served, seed) for seed in range(callers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(FOR_S + SOON_S)
            assert not any(thread.is_alive() for thread in threads)
        finally:
            served.close()
        assert engine.drain(SOON_S)
        tally = engine.tally()
    assert tally.admitted == sum(tally.outcomes.values())
    assert not [thread.wrong for thread in threads if thread.wrong]
    told = sum((thread.statuses for thread in threads), Counter())
    assert told[200] > 50
    assert told.keys() <= {200, 400, 429, 503, 504}
    assert not [r for r in caplog.records if r.exc_info]
