"""A real server process on loopback: what the end-to-end tests talk to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

START_LIMIT_S = 60.0


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Server:
    """A running `systone serve`; `client` keeps one connection pool to it."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path
    client: httpx.Client

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return self.client.post(path, json=body, **options)

    def admitted(self) -> int:
        """How many requests the engine has taken, as /metrics says it."""
        name = "systone_requests_admitted_total"
        lines = self.client.get("/metrics").text.splitlines()
        return sum(int(float(line.split()[-1])) for line in lines if line.startswith(name))

    def decide(
        self, state: Any, questions: dict[str, Any], **fields: Any
    ) -> dict[str, dict[str, Any]]:
        """The answers of a request that must succeed."""
        reply = self.post("/v1/systemone", {"state": state, "questions": questions, **fields})
        assert reply.status_code == 200, reply.text
        answers: dict[str, dict[str, Any]] = reply.json()["answers"]
        return answers

    def stop(self) -> int:
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


StartServer = Callable[..., Server]


def launch(log: Path, *args: str, env: dict[str, str] | None = None, wait: bool = True) -> Server:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "systone.cli", "serve", "--port", str(port), *args],
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
        )
    server = Server(url, process, log, httpx.Client(base_url=url, timeout=60))
    if wait:
        wait_ready(server)
    return server


def wait_ready(server: Server) -> None:
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end:
        assert server.process.poll() is None, server.log.read_text()
        try:
            if server.client.get("/health/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.02)
    raise AssertionError(f"not ready after {START_LIMIT_S} s: {server.log.read_text()}")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server with the embedded default model, shared by the tests that don't stop it."""
    running = launch(tmp_path_factory.mktemp("server") / "log")
    yield running
    running.stop()


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Starts servers of a test's own; whatever still runs is killed afterwards."""
    started: list[Server] = []

    def start(*args: str, **options: Any) -> Server:
        started.append(launch(tmp_path / f"log{len(started)}", *args, **options))
        return started[-1]

    yield start
    for running in started:
        running.client.close()
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait(10)
