"""Waiting for an answer while watching the caller: one who leaves takes the request with them.

A caller that disconnects before dispatch costs no device work; one that leaves later doesn't
disturb the batch, the answer is dropped.
"""

from __future__ import annotations

import asyncio

from starlette.types import Receive

from systone.engine import Pending
from systone.protocol.types import Decision
from systone.server.call import Call
from systone.server.edge import ClientLeftError

__all__ = ["wait_for"]


async def wait_for(pending: Pending, receive: Receive, call: Call) -> Decision:
    """The decision. Raises what the engine settled on, or ClientLeftError."""
    watch = asyncio.create_task(_watch(pending, receive, call))
    try:
        decision = await asyncio.wrap_future(pending)
    except asyncio.CancelledError:
        if call.left:
            raise ClientLeftError from None
        raise  # this very task is being cancelled
    finally:
        watch.cancel()
    if call.left:
        raise ClientLeftError
    return decision


async def _watch(pending: Pending, receive: Receive, call: Call) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            call.left = True
            pending.cancel()
            return
