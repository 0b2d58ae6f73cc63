"""A small System One server in this process that answers, and misbehaves on command."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from systone.bench.replies import Expectation


class StubHandler(BaseHTTPRequestHandler):
    """States that misbehave: refuse, vanish, nonsense, chunked, stall, leave."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # one packet per reply
    server: StubServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.counting():
            self._answer(request)

    def do_GET(self) -> None:
        pages = {
            "/health": {"models": [{"name": "stub", "modes": self.server.modes}]},
            "/metrics": 'systone_batches_total 4.0\nsystone_device_seconds_total{model="a"} 1.5\n',
        }
        page = pages.get(self.path, "") if self.server.tells else ""
        self._send(200 if page else 404, page if isinstance(page, str) else json.dumps(page))

    def _answer(self, request: dict[str, Any]) -> None:
        state = request["state"]
        if state == "refuse":
            self._send(503, '{"error": "busy"}')
            return
        if state == "vanish":
            self.close_connection = True
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{")
            return
        reply = Expectation.of(request).sample()
        if state == "nonsense":
            reply["answers"] = {}
        if state == "stall":
            time.sleep(1.0)
        if self.server.gate is not None:
            self.server.gate.wait(timeout=5)
        self._send(200, json.dumps(reply), chunked=state == "chunked", leave=state == "leave")

    def _send(self, status: int, body: str, *, chunked: bool = False, leave: bool = False) -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Server-Timing", "prepare;dur=0.250, device;dur=1.500, total;dur=2")
        if chunked:
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", str(len(data)))
        if leave:
            self.close_connection = True  # without saying so
        self.end_headers()
        if chunked:
            parts = (data[:7], data[7:], b"")
            self.wfile.write(b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts))
        else:
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        return


class StubServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), StubHandler)
        self.gate: threading.Barrier | None = None  # replies wait until so many are in flight
        self.tells = True  # whether /health and /metrics exist
        self.modes: dict[str, Any] = {"device": "stub", "memory": {"peak_bytes": 3 << 20}}
        self.connections = 0
        self.answered = 0
        self.most_in_flight = 0
        self._in_flight = 0
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        return  # a client may leave whenever it likes

    def counting(self) -> Any:
        return _Counting(self)


class _Counting:
    def __init__(self, server: StubServer) -> None:
        self.server = server

    def __enter__(self) -> None:
        server = self.server
        with server._lock:
            server._in_flight += 1
            server.most_in_flight = max(server.most_in_flight, server._in_flight)

    def __exit__(self, *_: object) -> None:
        with self.server._lock:
            self.server._in_flight -= 1
            self.server.answered += 1


@pytest.fixture
def stub() -> Iterator[StubServer]:
    with running_stub() as server:
        yield server


@contextmanager
def running_stub() -> Iterator[StubServer]:
    server = StubServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


MIXED = {
    "sharp": {"type": "noul", "instructions": "Is it sharp?"},
    "colour": {"type": "choice", "instructions": "Which?", "criteria": {"red": None, "blue": None}},
    "size": {"type": "score", "instructions": "How large?", "criteria": ["small", "large", "vast"]},
}


def request(state: str, questions: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"state": state, "questions": MIXED if questions is None else questions}


@pytest.fixture
def requests_file(tmp_path: Path) -> Path:
    return write_requests(tmp_path)


def write_requests(directory: Path) -> Path:
    """Nine requests of different kinds, one a line."""
    lines = [
        json.dumps({"id": f"q{i}", "request": request(f"crate {i}", _some(i))}) for i in range(9)
    ]
    path = directory / "nine.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def _some(i: int) -> dict[str, Any]:
    names = (("sharp",), ("colour",), ("size",), ("sharp", "size"))[i % 4]
    return {name: MIXED[name] for name in names}
