"""The outermost ASGI layer: every request passes it, every error becomes a reply here, once.

Owns request ids, Server-Timing, the translation of exceptions, how a reply is put on the wire, and
the one place that counts and logs a request. Knows no route and no body.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from starlette.types import Receive, Scope, Send

from systone.errors import EngineFaultError, SystoneError
from systone.protocol.errors import form_of_path, render
from systone.protocol.types import Dialect
from systone.server.call import LINE, Call, Reply, server_timing
from systone.server.metrics import Metrics

__all__ = ["ClientLeftError", "Edge"]

log = logging.getLogger("systone.server")
access = logging.getLogger("systone.access")

# Headers a caller may name a request by, and what the header for times calls all of it.
_ID_HEADERS = (b"x-request-id",)
_KEV_ID_HEADERS = (b"x-typesafe-request-id", b"x-request-id")
CLIENT_LEFT = 499  # counted and logged only: there is nobody to send it to


class ClientLeftError(Exception):
    """The caller disconnected; no reply is owed."""


class Edge:
    """`inner` routes a call to its handler. `clock` is the engine's monotonic clock. `wrapped`:
    another layer changes what is sent, so that replies have to go through it."""

    def __init__(
        self,
        inner: Callable[[Call], Awaitable[Reply]],
        *,
        dialect: Dialect,
        metrics: Metrics,
        clock: Callable[[], float],
        log_access: bool,
        wrapped: bool = False,
    ) -> None:
        self._inner = inner
        self._dialect = dialect
        self._id_headers = _KEV_ID_HEADERS if dialect == "kev" else _ID_HEADERS
        self._whole = "app" if dialect == "kev" else "total"
        self._metrics = metrics
        self._clock = clock
        self._log_access = log_access
        self._wrapped = wrapped

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise AssertionError("the server is configured for HTTP only")
        form = form_of_path(scope["path"])
        call = Call.begin(scope, receive, self._clock(), form, self._id_headers)
        call.line = line = scope.get(LINE)
        if line is not None and line.clear() and not self._wrapped:
            call.write = partial(self._write, call)
        try:
            reply = await self._reply(call)
            out = reply is None or call.status or (call.write is not None and call.write(reply))
            if reply is not None and not out:
                await self._send(call, reply, send)
        finally:
            if line is not None:
                line.end()
            self._record(call)

    async def _reply(self, call: Call) -> Reply | None:
        """The reply to a call, whatever becomes of it; None if nobody waits for one."""
        try:
            return await self._inner(call)
        except ClientLeftError:
            call.left = True
            return None
        except Exception as error:
            refusal = render(_as_ours(error, call), dialect=self._dialect, form=call.form)
            media_type = refusal.headers.pop("content-type")
            return Reply(refusal.body, refusal.status, media_type, refusal.headers)

    def _write(self, call: Call, reply: Reply) -> bool:
        """Put a reply on the wire past the event loop; from any thread. False if it can't be."""
        assert call.line is not None
        written = call.line.write(reply.status, self._headers(call, reply), _body(call, reply))
        if written:
            call.status = reply.status
        return written

    async def _send(self, call: Call, reply: Reply, send: Send) -> None:
        call.status = reply.status
        headers = self._headers(call, reply)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": _body(call, reply)})

    def _headers(self, call: Call, reply: Reply) -> list[tuple[bytes, bytes]]:
        request_id = call.request_id.encode()
        call.took_s = self._clock() - call.arrived
        timing = server_timing(call.steps, call.took_s, self._whole)
        headers = [
            (b"content-type", reply.media_type.encode()),
            (b"content-length", b"%d" % len(reply.body)),
            (b"x-typesafe-request-id", request_id),
            (b"x-request-id", request_id),
            (b"server-timing", timing.encode()),
        ]
        for name, value in (*reply.headers.items(), *call.headers.items()):
            headers.append((name.encode(), value.encode()))
        return headers

    def _record(self, call: Call) -> None:
        took_s = call.took_s or self._clock() - call.arrived
        status = CLIENT_LEFT if call.left else call.status
        self._metrics.observe(call.path, status, took_s, call.steps)
        if self._log_access:
            access.info(
                "%s %s %d %.1f ms %s",
                call.method,
                call.path,
                status,
                took_s * 1e3,
                call.request_id,
            )


def _body(call: Call, reply: Reply) -> bytes:
    return b"" if call.method == "HEAD" else reply.body


def _as_ours(error: Exception, call: Call) -> SystoneError:
    """An unexpected exception as an error of this package."""
    if isinstance(error, SystoneError):
        return error
    log.error("request %s broke", call.request_id, exc_info=error)
    return EngineFaultError("internal error", code="internal_error")
