"""Replies that the thread which made them puts on the wire, over real sockets in this process."""

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import httpx
import pytest

from systone.config import EngineConfig
from systone.engine import Engine
from systone.server.connection import _Line
from systone.server.edge import Edge
from tests.fakes import FakeExecutor, LaterExecutor, fake_model, fake_noul
from tests.unit.server.wire import SOON_S, Replies, Served, body_of, message, noul


@pytest.fixture
def executor() -> FakeExecutor:
    return LaterExecutor()


@pytest.fixture
def engine(executor: FakeExecutor) -> Iterator[Engine]:
    with Engine([fake_model(executor=executor)], EngineConfig(max_queue=400)) as running:
        yield running
        executor.gate.set()


@pytest.fixture
def serve(engine: Engine) -> Iterator[Callable[..., Served]]:
    made: list[Served] = []

    def start(**settings: Any) -> Served:
        made.append(Served(engine, **settings))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that wrote replies past the loop."""
    seen: list[str] = []
    write = os.write

    def noted(descriptor: int, data: bytes) -> int:
        if data.startswith(b"HTTP/1.1"):
            seen.append(threading.current_thread().name)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", noted)
    return seen


def at_rest(engine: Engine) -> None:
    """Waits until the device's thread has put its last batch away."""
    end = time.monotonic() + SOON_S
    while engine.health().models[0].running:
        assert time.monotonic() < end
        time.sleep(0.005)


def test_the_thread_that_waited_for_the_device_writes_the_reply(serve, writers, engine) -> None:
    with serve().connect() as sock:
        replies = Replies(sock)
        for i in range(5):
            sock.sendall(message(body_of(f"s{i}")))
            assert noul(replies.next()) == fake_noul(f"s{i}", "?")
            at_rest(engine)
    assert set(writers) == {"systone-device"}


def test_a_busy_engine_leaves_replies_to_the_loop(serve, writers, executor, engine) -> None:
    server = serve()
    executor.gate.clear()
    executor.entered.clear()
    socks = [server.connect() for _ in range(9)]
    socks[0].sendall(message(body_of("holder")))
    assert executor.entered.wait(SOON_S)
    for i, sock in enumerate(socks[1:]):
        sock.sendall(message(body_of(f"s{i}")))
    end = time.monotonic() + SOON_S
    while engine.tally().admitted < 9:
        assert time.monotonic() < end
        time.sleep(0.005)
    time.sleep(0.05)  # prepared
    writers.clear()
    executor.gate.set()
    assert noul(Replies(socks[0]).next()) == fake_noul("holder", "?")
    for i, sock in enumerate(socks[1:]):
        assert noul(Replies(sock).next()) == fake_noul(f"s{i}", "?")
        sock.close()
    socks[0].close()
    assert "http-loop" in writers
    assert not [name for name in writers if name.startswith("systone-finish")]


async def test_a_reply_written_past_the_loop_is_the_one_the_loop_sends(serve, engine) -> None:
    app = serve().app
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        sent = await client.post(
            "/v1/systemone", content=body_of("s"), headers={"x-request-id": "id-1"}
        )
    with serve().connect() as sock:
        sock.sendall(message(body_of("s"), "x-request-id: id-1"))
        status, headers, body = Replies(sock).next()
    assert (status, body) == (200, sent.content)
    assert headers.pop("date")
    timing = re.sub(r"[0-9.]+", "N", headers.pop("server-timing"))
    assert timing == re.sub(r"[0-9.]+", "N", sent.headers["server-timing"])
    assert headers == {k: v for k, v in sent.headers.items() if k != "server-timing"}


def test_requests_sent_without_waiting_are_answered_in_order(serve) -> None:
    with serve().connect() as sock:
        sock.sendall(b"".join(message(body_of(f"s{i}"), f"x-request-id: r{i}") for i in range(40)))
        replies = Replies(sock)
        for i in range(40):
            reply = replies.next()
            assert reply[1]["x-request-id"] == f"r{i}"
            assert noul(reply) == fake_noul(f"s{i}", "?")


def test_a_caller_who_reads_slowly_gets_every_reply_whole(serve, monkeypatch) -> None:
    """More than a socket's buffers hold: writes are cut short, the loop goes on with what is left,
    and the next reply waits behind it."""
    cut = 0
    write = os.write

    def noted(descriptor: int, data: bytes) -> int:
        nonlocal cut
        sent = write(descriptor, data)
        cut += sent < len(data)
        return sent

    monkeypatch.setattr(os, "write", noted)
    body = body_of("s", options=250)
    with serve(send_buffer=16384).connect() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        count = 40
        requests = [message(body, f"x-request-id: r{i}") for i in range(count)]
        sender = threading.Thread(target=lambda: [sock.sendall(each) for each in requests])
        sender.start()
        replies = Replies(sock)
        first = replies.next()
        assert first[0] == 200
        for i in range(1, count):
            if i % 10 == 0:
                time.sleep(0.05)
            status, headers, data = replies.next()
            assert (status, headers["x-request-id"], data) == (200, f"r{i}", first[2])
        sender.join(SOON_S)
    assert cut


@pytest.mark.parametrize(
    ("buffered", "closing", "waits", "clear"),
    [
        (0, False, False, True),
        (1, False, False, False),
        (0, True, False, False),
        (0, False, True, False),
    ],
)
def test_others_write_only_where_nothing_is_being_sent(buffered, closing, waits, clear) -> None:
    transport = Mock(
        **{"get_write_buffer_size.return_value": buffered, "is_closing.return_value": closing}
    )
    line = _Line(Mock(transport=transport), Mock(waiting_for_100_continue=waits))
    assert line.clear() is clear


@pytest.mark.parametrize(
    ("lines", "version"), [(("connection: close",), "1.1"), ((), "1.0")], ids=["close", "1.0"]
)
def test_a_connection_that_is_not_to_be_kept_is_ended_after_the_reply(
    serve, lines, version
) -> None:
    with serve().connect() as sock:
        sock.sendall(message(body_of("s"), *lines, version=version))
        replies = Replies(sock)
        status, headers, _ = replies.next()
        assert (status, headers["connection"]) == (200, "close")
        assert replies.ended()


def test_a_caller_who_waits_to_be_told_to_go_on_is_told(serve) -> None:
    body = body_of("s")
    with serve().connect() as sock:
        sock.sendall(message(body, "expect: 100-continue")[: -len(body)])
        assert sock.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(body)
        assert noul(Replies(sock).next()) == fake_noul("s", "?")


def test_refusals_and_other_routes_go_the_same_way(serve) -> None:
    with serve().connect() as sock:
        replies = Replies(sock)
        sock.sendall(message(b"{}"))
        assert replies.next()[0] == 422
        sock.sendall(b"GET /v1/nope HTTP/1.1\r\nhost: x\r\n\r\n")
        assert replies.next()[0] == 404
        sock.sendall(b"HEAD /health/live HTTP/1.1\r\nhost: x\r\n\r\n")
        data = sock.recv(65536)
        assert data.startswith(b"HTTP/1.1 200")
        assert data.endswith(b"\r\n\r\n")
        sock.sendall(message(body_of("s")))
        assert noul(replies.next()) == fake_noul("s", "?")


def test_nonsense_behind_a_request_ends_the_connection_with_one_reply(
    serve, executor, engine
) -> None:
    executor.gate.clear()
    executor.entered.clear()
    with serve().connect() as sock:
        sock.sendall(message(body_of("s")))
        assert executor.entered.wait(SOON_S)
        sock.sendall(b"NONSENSE\r\n\r\n")
        replies = Replies(sock)
        assert replies.next()[0] == 400
        executor.gate.set()
        assert replies.ended()
    assert engine.drain(SOON_S)
    assert sum(engine.tally().outcomes.values()) == 1


def test_a_caller_who_has_the_reply_did_not_leave_early(serve, engine) -> None:
    server = serve()
    for _ in range(30):
        with server.connect() as sock:
            sock.sendall(message(body_of("s")))
            assert Replies(sock).next()[0] == 200
    counted = 'systone_http_requests_total{route="/v1/systemone",status="200"} 30.0'
    end, text = time.monotonic() + SOON_S, ""
    while counted not in text:  # the loop counts a reply after it is out
        assert time.monotonic() < end, text
        with server.connect() as sock:
            sock.sendall(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
            text = Replies(sock).next()[2].decode()
        assert 'status="499"' not in text


def test_another_layer_around_the_edge_sees_every_reply(serve, writers) -> None:
    """The Kev dialect's pages of other origins: their header is added on the way out."""
    server = serve(dialect="kev")
    assert not isinstance(server.app, Edge)
    with server.connect() as sock:
        sock.sendall(message(body_of("s"), "origin: http://elsewhere"))
        status, headers, _ = Replies(sock).next()
    assert (status, headers["access-control-allow-origin"]) == (200, "*")
    assert writers == []
