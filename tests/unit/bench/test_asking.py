import json
import socket
import threading

import pytest

from systone.bench.asking import Outcome, ask, timing_ms
from systone.bench.replies import Expectation
from systone.bench.wire import Address, Connection
from systone.errors import ConfigError
from tests.unit.bench.conftest import StubServer, request


def asked(stub: StubServer, *states: str, timeout_s: float = 5.0) -> list[Outcome]:
    """The states' requests, one after another on one connection."""
    address = Address.of(stub.url)
    connection = Connection(address, timeout_s)
    outcomes = []
    for state in states:
        value = request(state)
        body = json.dumps(value).encode()
        outcomes.append(ask(connection, address.encode(body, "r.0"), Expectation.of(value)))
    connection.close()
    return outcomes


def test_an_answer_has_its_time_its_usage_and_the_servers_timing(stub: StubServer) -> None:
    (outcome,) = asked(stub, "fine")
    assert outcome.failure is None
    assert outcome.status == 200
    assert outcome.wall_ns > 0
    assert outcome.input_tokens == 0
    assert outcome.server_ms == {"prepare": 0.25, "device": 1.5, "total": 2.0}
    assert outcome.received_bytes > 100


def test_one_connection_serves_many_requests(stub: StubServer) -> None:
    assert [o.failure for o in asked(stub, "a", "b", "chunked", "c")] == [None] * 4
    assert stub.connections == 1


def test_a_refusal_is_an_outcome_and_the_connection_stays(stub: StubServer) -> None:
    refused, fine = asked(stub, "refuse", "fine")
    assert refused.status == 503
    assert refused.failure == 'status 503: {"error": "busy"}'
    assert refused.answers is None
    assert fine.failure is None
    assert stub.connections == 1


def test_an_invalid_reply_is_a_failure(stub: StubServer) -> None:
    (outcome,) = asked(stub, "nonsense")
    assert outcome.status == 200
    assert outcome.failure is not None
    assert outcome.failure.startswith("invalid reply: ")


def test_a_reply_that_breaks_off_fails_its_own_request_only(stub: StubServer) -> None:
    broken, fine = asked(stub, "vanish", "fine")
    assert broken.failure is not None
    assert "closed the connection" in broken.failure
    assert fine.failure is None


def test_a_connection_the_server_closed_between_requests_is_replaced(stub: StubServer) -> None:
    first, second = asked(stub, "leave", "fine")
    assert first.failure is None
    if second.failure is not None:  # sent before the end had arrived: a failure, never dropped
        assert "closed" in second.failure or "Reset" in second.failure
    else:
        assert stub.connections == 2


def test_no_reply_in_time_is_a_failure(stub: StubServer) -> None:
    (outcome,) = asked(stub, "stall", timeout_s=0.1)
    assert outcome.failure == "no reply in time"


def test_a_server_that_is_not_there_is_a_failure() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        connection = Connection(Address("127.0.0.1", unused.getsockname()[1]), 1.0)
        outcome = ask(connection, b"", Expectation.of(request("s")))
    assert outcome.failure is not None
    assert outcome.failure.startswith("can't connect")


def test_what_is_not_http_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(1 << 16)
                sock.sendall(b"220 mail server ready\r\n")

        thread = threading.Thread(target=talk)
        thread.start()
        address = Address("127.0.0.1", listener.getsockname()[1])
        outcome = ask(
            Connection(address, 2.0), address.encode(b"{}", "x"), Expectation.of(request("s"))
        )
        thread.join()
    assert outcome.failure is not None
    assert outcome.answers is None


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("http://h:9000", "h", 9000, "/v1/systemone"),
        ("http://h/", "h", 80, "/v1/systemone"),
        ("http://h:1/proxy/v1/systemone", "h", 1, "/proxy/v1/systemone"),
        ("http://[::1]:8080", "::1", 8080, "/v1/systemone"),
    ],
)
def test_a_url_is_a_servers_root_or_its_route(url: str, host: str, port: int, path: str) -> None:
    assert Address.of(url) == Address(host, port, path)


@pytest.mark.parametrize("url", ["https://h", "http://", "ftp://h", "http://h:x", "http://h?q=1"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"must be http|[Pp]ort"):
        Address.of(url)


def test_a_key_is_sent_as_a_bearer() -> None:
    head = Address("h", 1, api_key="k").encode(b"{}", "id.7")
    assert b"\r\nauthorization: Bearer k\r\n" in head
    assert b"\r\nx-request-id: id.7\r\n" in head
    assert head.endswith(b"content-length: 2\r\n\r\n{}")


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("", None),
        ("cache", None),
        ("device;dur=1.5", {"device": 1.5}),
        ('a;desc="x";dur="2", b;dur=abc, c;DUR=3', {"a": 2.0, "c": 3.0}),
    ],
)
def test_server_timing_gives_durations(header: str, found: dict[str, float] | None) -> None:
    assert timing_ms(header) == found
