"""Watching the caller while the engine works: one who leaves takes the request with them.

A caller that disconnects before dispatch costs no device work; one that leaves later doesn't
disturb the batch, the answer is dropped. A connection tells of its end itself; any other ASGI
server is asked, by a task of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from systone.server.call import Call
from systone.server.edge import ClientLeftError

__all__ = ["Watch"]


class Watch:
    """Around the wait for an answer: `leave` is called when the caller does. Raises ClientLeftError
    at the end of the block if they did."""

    def __init__(self, call: Call, leave: Callable[[], None]) -> None:
        self._call = call
        self._leave = leave
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        if self._call.line is not None:
            self._call.line.watch(self._left)
        else:
            self._task = asyncio.create_task(self._watch())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._task is not None:
            self._task.cancel()
        # a CancelledError that isn't the caller's doing is this very task's: it goes on
        if self._call.left and (kind is None or issubclass(kind, asyncio.CancelledError)):
            raise ClientLeftError from None

    def _left(self) -> None:
        self._call.left = True
        self._leave()

    async def _watch(self) -> None:
        while (await self._call.receive())["type"] != "http.disconnect":
            pass
        self._left()
