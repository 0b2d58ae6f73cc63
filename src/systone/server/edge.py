"""The outermost ASGI layer: every request passes it, every error becomes a reply here, once.

Owns request ids, Server-Timing, the translation of exceptions, and the one place that counts and
logs a request. Knows no route and no body.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from systone.errors import EngineFaultError, RequestError, SystoneError
from systone.protocol.errors import form_of_path, render
from systone.protocol.refusals import method_not_allowed, not_found
from systone.protocol.types import Dialect
from systone.server.call import Call, server_timing
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
    """`inner` is the router. `clock` is the engine's monotonic clock."""

    def __init__(
        self,
        inner: ASGIApp,
        *,
        dialect: Dialect,
        metrics: Metrics,
        clock: Callable[[], float],
        log_access: bool,
    ) -> None:
        self._inner = inner
        self._dialect = dialect
        self._id_headers = _KEV_ID_HEADERS if dialect == "kev" else _ID_HEADERS
        self._whole = "app" if dialect == "kev" else "total"
        self._metrics = metrics
        self._clock = clock
        self._log_access = log_access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise AssertionError("the server is configured for HTTP only")
        scope["app"] = self  # makes starlette raise 404 and 405 instead of sending plain text
        form = form_of_path(scope["path"])
        call = Call.begin(scope, self._clock(), form, self._id_headers)

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                call.status = message["status"]
                message["headers"] = [*message.get("headers", ()), *self._marks(call)]
            await send(message)

        try:
            await self._inner(scope, receive, send_marked)
        except ClientLeftError:
            call.left = True
        except Exception as error:
            if call.status:
                raise  # the reply had begun: only the connection can still be ended
            await self._refuse(_as_ours(error, scope, call), scope, call, send_marked)
        finally:
            self._record(scope, call)

    def _marks(self, call: Call) -> list[tuple[bytes, bytes]]:
        request_id = call.request_id.encode()
        timing = server_timing(call.steps, self._clock() - call.arrived, self._whole)
        marks = [
            (b"x-typesafe-request-id", request_id),
            (b"x-request-id", request_id),
            (b"server-timing", timing.encode()),
        ]
        marks += [(name.encode(), value.encode()) for name, value in call.headers.items()]
        return marks

    async def _refuse(self, error: SystoneError, scope: Scope, call: Call, send: Send) -> None:
        reply = render(error, dialect=self._dialect, form=call.form)
        headers = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        headers.append((b"content-length", str(len(reply.body)).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else reply.body
        await send({"type": "http.response.body", "body": body})

    def _record(self, scope: Scope, call: Call) -> None:
        took_s = self._clock() - call.arrived
        status = CLIENT_LEFT if call.left else call.status
        self._metrics.observe(scope["path"], status, took_s, call.steps)
        if self._log_access:
            access.info(
                "%s %s %d %.1f ms %s",
                scope["method"],
                scope["path"],
                status,
                took_s * 1e3,
                call.request_id,
            )


def _as_ours(error: Exception, scope: Scope, call: Call) -> SystoneError:
    """Starlette's and unexpected exceptions as errors of this package."""
    if isinstance(error, SystoneError):
        return error
    if isinstance(error, HTTPException):
        if error.status_code == 404:
            return not_found(scope["path"])
        if error.status_code == 405:
            allow = (error.headers or {}).get("Allow", "")
            return method_not_allowed(scope["method"], sorted(allow.split(", ")))
        return RequestError.at((), error.detail, status=error.status_code, code="http_error")
    log.error("request %s broke", call.request_id, exc_info=error)
    return EngineFaultError("internal error", code="internal_error")
