"""A connection: uvicorn's, with replies that any thread may write whole, and errors in JSON.

The thread that has made a reply writes it to the socket itself, in one piece: waking the event loop
to do it would keep the caller waiting, and a head and a body sent apart cost two system calls.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from systone.server.call import LINE

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

__all__ = ["Connection"]

EAGER = sys.version_info >= (3, 12)  # tasks may start at once


class Connection(HttpToolsProtocol):
    """`connection_lost` comes before the transport closes its socket, so a thread that writes under
    the lock, and only while the connection is open, never writes to another's descriptor."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.wire = threading.Lock()
        self.descriptor: int | None = transport.get_extra_info("socket").fileno()
        self.turn: RequestResponseCycle | None = None  # the exchange whose turn it is
        self.lost: Callable[[], None] | None = None  # what that one wants done
        self._line: _Line | None = None
        self._feeding = False
        self._unstarted: tuple[RequestResponseCycle, ASGI3Application] | None = None

    def data_received(self, data: bytes) -> None:
        self._feeding = True
        super().data_received(data)
        self._feeding = False
        if self._unstarted is not None:
            (cycle, app), self._unstarted = self._unstarted, None
            self._start_eagerly(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        self._shut()
        super().connection_lost(exc)
        if self.turn is not None:
            self.turn.disconnected = True  # uvicorn tells only the exchange that began last
        if self.lost is not None:
            self.lost()

    def on_headers_complete(self) -> None:
        if self._line is not None:
            self._line.settle()  # its reply may be out, though the loop hasn't come to it yet
        super().on_headers_complete()
        self.cycle.keep_alive &= self.parser.should_keep_alive()
        self._line = _Line(self, self.cycle)
        scope: Any = self.scope
        scope[LINE] = self._line  # before the task that reads it runs

    def send_400_response(self, msg: str) -> None:
        """Answers what isn't HTTP at all in JSON too."""
        self._shut()
        detail = {"error_type": "api_usage_error", "message": msg, "code": "invalid_http"}
        body = json.dumps({"detail": detail}).encode()
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Once what has arrived is read: most bodies have, and needn't be waited for."""
        if EAGER and self._feeding:
            self._unstarted = cycle, app
        else:
            super()._start_asgi_task(cycle, app)

    def _start_eagerly(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Run the task until it waits for something, rather than from the loop's next turn on."""
        options: dict[str, Any] = {"eager_start": True}
        task = asyncio.Task(cycle.run_asgi(app), loop=self.loop, **options)
        if not task.done():
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    def _shut(self) -> None:
        """No other thread writes from here on."""
        with self.wire:
            self.descriptor = None


class _Line:
    """One exchange's way past the event loop. See `call.Line`."""

    def __init__(self, connection: Connection, cycle: RequestResponseCycle) -> None:
        self._connection = connection
        self._cycle = cycle
        self._written = self._ended = False

    def take_body(self) -> bytes | None:
        cycle = self._cycle
        if cycle.more_body or cycle.waiting_for_100_continue or cycle.disconnected:
            return None
        cycle.flow.resume_reading()  # a long body stopped it, and a caller's leaving must be seen
        cycle.message_event.clear()
        body, cycle.body = bytes(cycle.body), bytearray()
        return body

    def watch(self, lost: Callable[[], None]) -> None:
        def lose() -> None:
            if not self._written:  # else the caller has what they came for
                lost()

        self._connection.lost = lose
        if self._cycle.disconnected:
            lose()

    def clear(self) -> bool:
        transport = self._connection.transport
        self._connection.turn = self._cycle
        return not (
            self._cycle.waiting_for_100_continue
            or transport.is_closing()
            or transport.get_write_buffer_size()
        )

    def write(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        cycle, connection = self._cycle, self._connection
        parts = [STATUS_LINE[status]]
        for name, value in (*cycle.default_headers, *headers):
            parts += (name, b": ", value, b"\r\n")
        parts.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
        parts.append(body)
        data = b"".join(parts)
        with connection.wire:
            if self._written or self._ended or connection.descriptor is None:
                return False
            self._written = True
            try:
                sent = os.write(connection.descriptor, data)
            except OSError:
                sent = 0  # full, or broken: the transport finds out which
            if sent < len(data):  # told under the lock: before whatever follows this reply
                connection.loop.call_soon_threadsafe(self._finish, data[sent:])
        return True

    def end(self) -> None:
        with self._connection.wire:
            self._ended = True
        self._connection.lost = None
        self.settle()

    def settle(self) -> None:
        """On the event loop: what uvicorn does after a reply, if it was written here."""
        cycle = self._cycle
        if cycle.response_complete or not self._written:
            return
        with self._connection.wire:
            pass  # the write is over: what it left was given to the loop before this
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self._connection.transport.close()
        cycle.on_response()

    def _finish(self, rest: bytes) -> None:
        """On the event loop: what the socket didn't take at once."""
        if not self._connection.transport.is_closing():
            self._connection.transport.write(rest)
