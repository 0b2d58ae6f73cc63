"""Callers that leave, played at the ASGI interface so that the moment is exact."""

import asyncio
import json
from typing import Any

import pytest

from systone.config import ServerConfig
from systone.engine import Engine
from systone.server.app import create_app
from systone.server.edge import Edge
from tests.fakes import FakeExecutor

SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/v1/systemone",
    "raw_path": b"/v1/systemone",
    "query_string": b"",
    "root_path": "",
    "headers": [(b"content-type", b"application/json")],
}


class Caller:
    """Sends a body, then leaves when told to. `sent`: what the server answered."""

    def __init__(self, app: Edge, body: bytes, *, whole: bool = True) -> None:
        self.leave = asyncio.Event()
        self.sent: list[Any] = []
        self._messages = [{"type": "http.request", "body": body, "more_body": not whole}]
        self.task = asyncio.create_task(app(dict(SCOPE), self._receive, self._send))

    async def _receive(self) -> Any:
        if self._messages:
            return self._messages.pop()
        await self.leave.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)


@pytest.fixture
def app(engine: Engine) -> Edge:
    return create_app(engine, ServerConfig())


async def occupied(app: Edge, body: Any, executor: FakeExecutor) -> Caller:
    """A caller whose request holds the device."""
    executor.gate.clear()
    executor.entered.clear()
    caller = Caller(app, json.dumps(body).encode())
    await asyncio.to_thread(executor.entered.wait, 5)
    return caller


async def test_leaving_before_dispatch_cancels_and_gets_no_reply(app, body, executor, engine):
    holder = await occupied(app, body, executor)
    leaving = Caller(app, json.dumps({**body, "state": "leaves"}).encode())
    await asyncio.sleep(0.05)
    leaving.leave.set()
    await leaving.task
    assert leaving.sent == []
    assert engine.tally().outcomes["cancelled"] == 1
    assert engine.health().models[0].undispatched == 0
    executor.gate.set()
    await holder.task
    assert holder.sent[0]["status"] == 200
    assert ["leaves"] not in executor.batches


async def test_leaving_after_dispatch_lets_the_batch_end_and_gets_no_reply(
    app, body, executor, engine
):
    holder = await occupied(app, body, executor)
    holder.leave.set()
    await asyncio.sleep(0.05)
    executor.gate.set()
    await holder.task
    assert holder.sent == []
    assert engine.tally().outcomes["answered"] == 1


async def test_leaving_while_sending_the_body_ends_quietly(app, engine):
    caller = Caller(app, b'{"state":', whole=False)
    caller.leave.set()
    await caller.task
    assert caller.sent == []
    assert engine.tally().admitted == 0


async def test_a_body_that_does_not_arrive_by_the_deadline_is_504(engine):
    app = create_app(engine, ServerConfig(deadline_s=0.05))
    caller = Caller(app, b'{"state":', whole=False)
    await asyncio.wait_for(caller.task, 5)
    assert caller.sent[0]["status"] == 504


async def test_a_handler_that_is_cancelled_takes_its_request_out(app, body, executor, engine):
    holder = await occupied(app, body, executor)
    waiting = Caller(app, json.dumps(body).encode())
    await asyncio.sleep(0.05)
    waiting.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting.task
    assert engine.tally().outcomes["cancelled"] == 1
    executor.gate.set()
    await holder.task


async def test_an_error_after_the_reply_began_ends_the_connection(app, body):
    caller = Caller(app, json.dumps(body).encode())

    async def broken(message: Any) -> None:
        caller.sent.append(message)
        if message["type"] == "http.response.body":
            raise ConnectionResetError

    caller._send = broken  # type: ignore[method-assign]
    caller.task.cancel()
    with pytest.raises(ConnectionResetError):
        await app(dict(SCOPE), caller._receive, broken)
    assert [message["type"] for message in caller.sent] == [
        "http.response.start",
        "http.response.body",
    ]


async def test_only_http_is_spoken(app):
    with pytest.raises(AssertionError):
        await app({"type": "websocket"}, None, None)
