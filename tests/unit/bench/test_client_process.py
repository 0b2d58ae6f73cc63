import json
import threading

import pytest

from systone.bench.client_process import ClientProcess, Job
from systone.bench.loops import arrivals_ns
from systone.bench.replies import Expectation
from systone.bench.wire import Address
from tests.unit.bench.conftest import StubServer, request


def job(stub: StubServer, states: list[str], concurrency: int, rate: float | None = None) -> Job:
    address = Address.of(stub.url)
    values = [request(state) for state in states]
    due = None if rate is None else tuple(arrivals_ns(rate, len(states), "seed"))
    return Job(
        address,
        tuple(address.encode(json.dumps(v).encode(), f"r.{i}") for i, v in enumerate(values)),
        tuple(Expectation.of(v) for v in values),
        concurrency,
        due,
        timeout_s=5.0,
    )


def test_the_client_process_keeps_so_many_requests_in_flight(stub: StubServer) -> None:
    stub.gate = threading.Barrier(6)  # a reply is held until six requests are there
    seen: list[int] = []
    with ClientProcess() as client:
        outcomes = client.run(job(stub, ["x"] * 24, 6), seen.append)
        assert [o.failure for o in outcomes] == [None] * 24
        assert stub.most_in_flight == 6
        assert stub.connections == 6
        assert seen[-1] == 24
        stub.gate = None
        states = ["a", "refuse", "b", "nonsense", "c", "vanish", "d"]
        outcomes = client.run(job(stub, states, 3), seen.append)  # a second job, failures in place
        assert [o.failure is not None for o in outcomes] == [s in BAD for s in states]


BAD = {"refuse", "nonsense", "vanish"}


def test_an_open_loop_sends_at_its_rate(stub: StubServer) -> None:
    with ClientProcess() as client:
        given = job(stub, ["x"] * 40, 40, rate=100.0)
        outcomes = client.run(given, lambda _: None)
    assert given.due_ns is not None
    due = [o.due_ns or 0 for o in outcomes]
    assert [d - due[0] for d in due] == [d - given.due_ns[0] for d in given.due_ns]
    assert all(o.begin_ns >= (o.due_ns or 0) for o in outcomes)
    assert all(o.wall_ns >= o.begin_ns - (o.due_ns or 0) for o in outcomes)
    assert [o.failure for o in outcomes] == [None] * 40


def test_a_client_that_breaks_says_so(stub: StubServer) -> None:
    broken = Job(Address.of(stub.url), (b"x",), (), 1)  # no expectation for its request
    with ClientProcess() as client, pytest.raises(RuntimeError, match="IndexError"):
        client.run(broken, lambda _: None)
