"""What each route does: read, parse, ask the engine, render. Errors are raised, never rendered.

Small plain bodies are parsed on the event loop (a thread hop costs more than the parse); large or
compressed ones in a worker thread, so that nobody else's request waits for them.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from systone import __version__
from systone.config import ServerConfig
from systone.engine import Engine, Pending
from systone.errors import DeadlineError, RequestError
from systone.protocol import decisions, jsontext, kev_models, systemone
from systone.protocol import models as listing
from systone.protocol.types import Decision, Request
from systone.server.auth import KeyCheck
from systone.server.call import Call, call_of
from systone.server.metrics import Metrics
from systone.server.reading import Sent, read_sent, unpack
from systone.server.status import health_body, live_status, ready_status
from systone.server.waiting import wait_for

__all__ = ["Service"]

INLINE_BYTES = 32 * 1024
MAX_DEADLINE_MS = 3_600_000
JSON = "application/json"

T = TypeVar("T")


class Service:
    """The routes' handlers over one engine."""

    def __init__(self, engine: Engine, config: ServerConfig, metrics: Metrics) -> None:
        self._engine = engine
        self._config = config
        self._metrics = metrics
        self._limits = engine.limits
        self._keys = KeyCheck(config.api_key, config.dialect)
        self._parsers = ThreadPoolExecutor(2, thread_name_prefix="systone-parse")

    async def systemone(self, http: HttpRequest) -> Response:
        request = await self.parsed(http, systemone.parse)
        (decision,) = await self.decide(http, [request])
        return self.reply(http, decision, request.model)

    async def parsed(self, http: HttpRequest, parse: Callable[..., T]) -> T:
        """The body by a parser of the protocol, which takes the JSON text, then `dialect`, `parts`,
        `limits` and `strict` by name."""
        call = call_of(http.scope)
        sent = await self._receive(http)

        def read() -> T:
            data, parts = unpack(sent, self._config.max_body_bytes)
            return parse(
                data,
                dialect=self._config.dialect,
                parts=parts,
                limits=self._limits,
                strict=self._config.strict,
            )

        return await self._timed(call, sent, read)

    async def decide(self, http: HttpRequest, requests: Sequence[Request]) -> list[Decision]:
        """Decisions of several requests of one call, in order; all of them or an error."""
        call, left_s = call_of(http.scope), self._left_s(http)
        pending: list[Pending] = []
        try:
            pending.extend(
                self._engine.submit(self._named(request), deadline_s=left_s) for request in requests
            )
            decisions = [await wait_for(each, http.receive, call) for each in pending]
        finally:
            for each in pending:
                each.cancel()  # those that are done stay done
                call.steps.update(each.stamps.durations_s())
        call.headers["x-systone-model"] = self._engine.exact_name(decisions[0].model)
        return decisions

    def reply(self, http: HttpRequest, decision: Decision, asked_model: str | None) -> Response:
        """A decision as the 200 body of the server's dialect."""
        body = systemone.render(
            decision,
            dialect=self._config.dialect,
            extras=self._extras(http),
            asked_model=asked_model,
        )
        return Response(body, media_type=JSON)

    def _named(self, request: Request) -> Request:
        """In the kev dialect a model's name is only echoed: one that isn't served means the
        default."""
        if self._config.dialect != "kev" or request.model is None:
            return request
        if any(request.model in (card.name, *card.aliases) for card in self._engine.cards):
            return request
        return replace(request, model=None)

    async def decisions(self, http: HttpRequest) -> Response:
        call, dialect = call_of(http.scope), self._config.dialect
        sent = await self._receive(http)

        def parse() -> tuple[Request, decisions.DecisionsCall]:
            data, parts = unpack(sent, self._config.max_body_bytes)
            call.form = decisions.form_of(data)
            return decisions.parse(
                data,
                dialect=dialect,
                parts=parts,
                limits=self._limits,
                strict=self._config.strict,
            )

        request, asked = await self._timed(call, sent, parse)
        (decision,) = await self.decide(http, [request])
        body = decisions.render(decision, asked, extras=self._extras(http))
        return Response(body, media_type=JSON)

    async def models(self, http: HttpRequest) -> Response:
        self._keys.require(http.headers.get("authorization"))
        if self._config.dialect == "kev":
            return Response(kev_models.render(self._running()), media_type=JSON)
        return Response(listing.render(self._engine.cards), media_type=JSON)

    def _running(self) -> Iterator[kev_models.Running]:
        """Every served model as it runs now."""
        modes = {model.name: model.modes for model in self._engine.health().models}
        lanes = self._engine.tally().lanes
        for card in self._engine.cards:
            batches = lanes[card.name].batches if card.name in lanes else 0
            yield kev_models.Running(card, card.own, modes[card.name], batches)

    async def health(self, _http: HttpRequest) -> Response:
        body = jsontext.dumps(health_body(self._engine, __version__))
        return Response(body, ready_status(self._engine), media_type=JSON)

    async def live(self, _http: HttpRequest) -> Response:
        return self._brief(live_status(self._engine))

    async def ready(self, _http: HttpRequest) -> Response:
        return self._brief(ready_status(self._engine))

    async def metrics(self, _http: HttpRequest) -> Response:
        return Response(self._metrics.page(), media_type=self._metrics.content_type)

    def _brief(self, status: int) -> Response:
        health = self._engine.health()
        body = jsontext.dumps({"status": health.status, "reason": health.reason})
        return Response(body, status, media_type=JSON)

    async def _receive(self, http: HttpRequest) -> Sent:
        """The body of a caller with a key, if the engine has room for another request at all."""
        self._keys.require(http.headers.get("authorization"))
        try:
            async with asyncio.timeout(self._left_s(http)):
                sent = await read_sent(http, self._config.max_body_bytes)
        except TimeoutError:
            raise DeadlineError("the deadline passed before the body had arrived") from None
        self._engine.require_room()
        return sent

    async def _timed(self, call: Call, sent: Sent, parse: Callable[[], T]) -> T:
        began = time.monotonic()
        try:
            if sent.encoding is None and len(sent.data) <= INLINE_BYTES:
                return parse()
            return await asyncio.get_running_loop().run_in_executor(self._parsers, parse)
        finally:
            call.steps["parse"] = time.monotonic() - began

    def _left_s(self, http: HttpRequest) -> float | None:
        """Seconds left of the request's deadline, which runs from its headers' arrival."""
        deadline_s = _deadline_s(http, self._config.deadline_s)
        if deadline_s is None:
            return None
        return deadline_s - (time.monotonic() - call_of(http.scope).arrived)

    def _extras(self, http: HttpRequest) -> bool:
        return self._config.extras or http.headers.get("x-systone-extras") == "1"


def _deadline_s(http: HttpRequest, default_s: float | None) -> float | None:
    """The caller's own deadline (`x-systone-deadline-ms`, from the headers' arrival), if sent."""
    text = http.headers.get("x-systone-deadline-ms")
    if text is None:
        return default_s
    if not (re.fullmatch(r"[0-9]{1,7}", text) and 1 <= int(text) <= MAX_DEADLINE_MS):
        raise RequestError.at(
            ("x-systone-deadline-ms",),
            f"The header x-systone-deadline-ms must be an integer from 1 to {MAX_DEADLINE_MS}.",
            status=400,
        )
    return int(text) / 1e3
