"""One request from its hand-over to the engine until its reply: who makes that, and who sends it.

A thread that settles the request and has nothing else to do makes the reply and, where the
connection lets it, puts it on the wire: nobody waits for the event loop to wake up. A busy one
leaves both to the loop, which then has several to do each time it wakes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from systone.engine import Pending
from systone.protocol.types import Decision
from systone.server.call import Call, Reply
from systone.server.waiting import Watch

__all__ = ["Answer", "Settled"]

Settled = Callable[[Pending], None]


class Answer:
    """The reply to one request of a call. `made` turns the decision into it, on any thread."""

    def __init__(self, call: Call, made: Callable[[Decision], Reply]) -> None:
        self._call = call
        self._made = made
        self._loop = asyncio.get_running_loop()
        self._settled: asyncio.Future[Reply | None] = self._loop.create_future()
        self._pending: Pending | None = None

    async def to(self, submit: Callable[[Settled], Pending]) -> Reply:
        """Hand the request over and wait. Raises what `submit` does, the request's own error, and
        ClientLeftError."""
        try:
            with Watch(self._call, self._leave):
                # last of all: once the device thread is told, it waits for this one to let it run
                self._pending = submit(self._settle)
                reply = await self._settled
            return self._reply(self._pending) if reply is None else reply
        finally:
            self._leave()
            if self._pending is not None:
                self._call.steps.update(self._pending.stamps.durations_s())

    def _settle(self, pending: Pending) -> None:
        """On the thread that settled the request."""
        call, reply = self._call, None
        if pending.stamps.alone and not pending.exception() and not call.left:
            with suppress(Exception):  # which the loop meets again, and answers
                reply = self._reply(pending)
        if reply is not None and call.write is not None:
            call.write(reply)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, reply)

    def _wake(self, reply: Reply | None) -> None:
        if not self._settled.done():  # the task that waits may have been cancelled
            self._settled.set_result(reply)

    def _reply(self, pending: Pending) -> Reply:
        self._call.steps.update(pending.stamps.durations_s())
        return self._made(pending.result())

    def _leave(self) -> None:
        if self._pending is not None:
            self._pending.cancel()  # one that is done stays done
