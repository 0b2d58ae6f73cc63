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

from systone import __version__
from systone.config import ServerConfig
from systone.engine import Engine, Pending
from systone.errors import DeadlineError, RequestError
from systone.protocol import decisions, jsontext, kev_models, systemone
from systone.protocol import models as listing
from systone.protocol.types import Decision, Request
from systone.server.answering import Answer, Settled
from systone.server.auth import KeyCheck
from systone.server.call import Call, Reply
from systone.server.metrics import Metrics
from systone.server.reading import Sent, read_sent, unpack
from systone.server.status import health_body, live_status, ready_status
from systone.server.waiting import Watch

__all__ = ["Service"]

INLINE_BYTES = 32 * 1024
MAX_DEADLINE_MS = 3_600_000

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

    async def systemone(self, call: Call) -> Reply:
        request = await self.parsed(call, systemone.parse)
        return await self._answered(
            call, request, lambda decision: self.reply(call, decision, request.model)
        )

    async def parsed(self, call: Call, parse: Callable[..., T]) -> T:
        """The body by a parser of the protocol, which takes the JSON text, then `dialect`, `parts`,
        `limits` and `strict` by name."""
        sent = await self._receive(call)

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

    async def _answered(
        self, call: Call, request: Request, made: Callable[[Decision], Reply]
    ) -> Reply:
        """The reply to one request, or its error."""
        request, left_s = self._named(request), self._left_s(call)

        def reply(decision: Decision) -> Reply:
            call.headers["x-systone-model"] = self._engine.exact_name(decision.model)
            return made(decision)

        def submit(settled: Settled) -> Pending:
            return self._engine.submit(request, deadline_s=left_s, settled=settled)

        return await Answer(call, reply).to(submit)

    async def decide(self, call: Call, requests: Sequence[Request]) -> list[Decision]:
        """Decisions of several requests of one call, in order; all of them or an error."""
        left_s = self._left_s(call)
        pending: list[Pending] = []

        def leave() -> None:
            for each in pending:
                each.cancel()  # those that are done stay done

        try:
            with Watch(call, leave):
                pending.extend(
                    self._engine.submit(self._named(request), deadline_s=left_s)
                    for request in requests
                )
                decisions = [await asyncio.wrap_future(each) for each in pending]
        finally:
            leave()
            for each in pending:
                call.steps.update(each.stamps.durations_s())
        call.headers["x-systone-model"] = self._engine.exact_name(decisions[0].model)
        return decisions

    def reply(self, call: Call, decision: Decision, asked_model: str | None) -> Reply:
        """A decision as the 200 body of the server's dialect."""
        body = systemone.render(
            decision,
            dialect=self._config.dialect,
            extras=self._extras(call),
            asked_model=asked_model,
        )
        return Reply(body)

    def _named(self, request: Request) -> Request:
        """In the kev dialect a model's name is only echoed: one that isn't served means the
        default."""
        if self._config.dialect != "kev" or request.model is None:
            return request
        if any(request.model in (card.name, *card.aliases) for card in self._engine.cards):
            return request
        return replace(request, model=None)

    async def decisions(self, call: Call) -> Reply:
        dialect = self._config.dialect
        sent = await self._receive(call)

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
        return await self._answered(
            call,
            request,
            lambda decision: Reply(decisions.render(decision, asked, extras=self._extras(call))),
        )

    async def models(self, call: Call) -> Reply:
        self._keys.require(call.header(b"authorization"))
        if self._config.dialect == "kev":
            return Reply(kev_models.render(self._running()))
        return Reply(listing.render(self._engine.cards))

    def _running(self) -> Iterator[kev_models.Running]:
        """Every served model as it runs now."""
        modes = {model.name: model.modes for model in self._engine.health().models}
        lanes = self._engine.tally().lanes
        for card in self._engine.cards:
            batches = lanes[card.name].batches if card.name in lanes else 0
            yield kev_models.Running(card, card.own, modes[card.name], batches)

    async def health(self, _: Call) -> Reply:
        body = jsontext.dumps(health_body(self._engine, __version__))
        return Reply(body, ready_status(self._engine))

    async def live(self, _: Call) -> Reply:
        return self._brief(live_status(self._engine))

    async def ready(self, _: Call) -> Reply:
        return self._brief(ready_status(self._engine))

    async def metrics(self, _: Call) -> Reply:
        return Reply(self._metrics.page(), media_type=self._metrics.content_type)

    def _brief(self, status: int) -> Reply:
        health = self._engine.health()
        body = jsontext.dumps({"status": health.status, "reason": health.reason})
        return Reply(body, status)

    async def _receive(self, call: Call) -> Sent:
        """The body of a caller with a key, if the engine has room for another request at all."""
        self._keys.require(call.header(b"authorization"))
        try:
            sent = await read_sent(call, self._config.max_body_bytes, self._left_s(call))
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

    def _left_s(self, call: Call) -> float | None:
        """Seconds left of the request's deadline, which runs from its headers' arrival."""
        deadline_s = _deadline_s(call, self._config.deadline_s)
        if deadline_s is None:
            return None
        return deadline_s - (time.monotonic() - call.arrived)

    def _extras(self, call: Call) -> bool:
        return self._config.extras or call.header(b"x-systone-extras") == "1"


def _deadline_s(call: Call, default_s: float | None) -> float | None:
    """The caller's own deadline (`x-systone-deadline-ms`, from the headers' arrival), if sent."""
    text = call.header(b"x-systone-deadline-ms")
    if text is None:
        return default_s
    if not (re.fullmatch(r"[0-9]{1,7}", text) and 1 <= int(text) <= MAX_DEADLINE_MS):
        raise RequestError.at(
            ("x-systone-deadline-ms",),
            f"The header x-systone-deadline-ms must be an integer from 1 to {MAX_DEADLINE_MS}.",
            status=400,
        )
    return int(text) / 1e3
