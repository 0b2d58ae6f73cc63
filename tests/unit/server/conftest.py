"""An application over a fake model, called in process; and real server processes over one."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from systone.config import EngineConfig, ServerConfig
from systone.engine import Engine
from systone.server.app import create_app
from tests.fakes import FakeExecutor, fake_model

FLAGS = ("--warmup", "off")  # it would take two batches
BODY = {"state": "The crate is green.", "questions": {"wet": {"type": "noul", "instructions": "?"}}}


@pytest.fixture
def body() -> dict[str, Any]:
    return dict(BODY)


@pytest.fixture
def executor() -> FakeExecutor:
    return FakeExecutor()


@pytest.fixture
def engine(executor: FakeExecutor) -> Iterator[Engine]:
    with Engine([fake_model(executor=executor)], EngineConfig(max_queue=4)) as running:
        yield running
        executor.gate.set()


@pytest.fixture
def connect(engine: Engine) -> Callable[..., httpx.AsyncClient]:
    """A client of a fresh application with the server settings given."""

    def client(**settings: Any) -> httpx.AsyncClient:
        app = create_app(engine, ServerConfig(**settings))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://test", timeout=10)

    return client


@pytest.fixture
def client(connect: Callable[..., httpx.AsyncClient]) -> httpx.AsyncClient:
    return connect()


class Process:
    """`fake_server.py` on a port of its own."""

    def __init__(self, log: Path, seconds: float, *flags: str, wait: bool = True) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        script = Path(__file__).with_name("fake_server.py")
        with log.open("wb") as sink:
            self.popen = subprocess.Popen(
                [sys.executable, script, str(seconds), "--port", str(self.port), *FLAGS, *flags],
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            assert self.popen.poll() is None, self.log.read_text()
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1):
                    return
            except OSError:
                time.sleep(0.02)
        raise AssertionError(self.log.read_text())

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 10)

    def terminate(self, number: int = signal.SIGTERM) -> None:
        self.popen.send_signal(number)


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def launch(seconds: float, *flags: str, **options: Any) -> Process:
        started.append(Process(tmp_path / f"log{len(started)}", seconds, *flags, **options))
        return started[-1]

    yield launch
    for process in started:
        if process.popen.poll() is None:
            process.popen.kill()
        process.popen.wait(10)
