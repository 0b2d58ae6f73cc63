"""Raw HTTP for tests: an application on a loop of its own, requests and replies as bytes."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from typing import Any

import uvloop

from systone.config import ServerConfig
from systone.engine import Engine
from systone.server.app import create_app
from systone.server.listener import bind, http_server

SOON_S = 10.0


class Served:
    """An application on a loop of its own; a client is a plain socket."""

    def __init__(self, engine: Engine, send_buffer: int = 0, **settings: Any) -> None:
        config = ServerConfig(**settings)
        self.app = create_app(engine, config)
        self.server = http_server(self.app, config)
        self._sock = bind("127.0.0.1", 0)
        if send_buffer:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        self.port = self._sock.getsockname()[1]
        self._thread = threading.Thread(target=self._run, name="http-loop")
        self._thread.start()
        end = time.monotonic() + SOON_S
        while not self.server.started:
            assert time.monotonic() < end
            time.sleep(0.005)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self.server.serve(sockets=[self._sock]))

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), SOON_S)

    def close(self) -> None:
        self.server.should_exit = True
        self._thread.join(SOON_S)
        self._sock.close()


def body_of(state: str, options: int = 0) -> bytes:
    question: dict[str, Any] = {"type": "noul", "instructions": "?"}
    if options:
        criteria = {f"{i:03} {'x' * 200}": None for i in range(options)}
        question = {"type": "choice", "instructions": "?", "criteria": criteria}
    return json.dumps({"state": state, "questions": {"q": question}}).encode()


def message(body: bytes, *lines: str, version: str = "1.1") -> bytes:
    head = f"POST /v1/systemone HTTP/{version}\r\nhost: x\r\ncontent-type: application/json\r\n"
    head += "".join(f"{line}\r\n" for line in lines)
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


class Replies:
    """Replies as they come over one socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._data = b""

    def next(self) -> tuple[int, dict[str, str], bytes]:
        while b"\r\n\r\n" not in self._data:
            self._more()
        top, _, rest = self._data.partition(b"\r\n\r\n")
        status, *lines = top.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        while len(rest) < int(headers["content-length"]):
            self._more()
            rest = self._data.partition(b"\r\n\r\n")[2]
        length = int(headers["content-length"])
        self._data = rest[length:]
        return int(status.split()[1]), headers, rest[:length]

    def ended(self) -> bool:
        return not self._data and not self._sock.recv(65536)

    def _more(self) -> None:
        chunk = self._sock.recv(65536)
        if not chunk:
            raise ConnectionError(f"the connection ended after {self._data!r}")
        self._data += chunk


def noul(reply: tuple[int, dict[str, str], bytes]) -> float:
    assert reply[0] == 200, reply
    return float(json.loads(reply[2])["answers"]["q"]["noul"])
