"""Which handler answers a path and a method: exact paths, nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from systone.protocol.refusals import method_not_allowed, not_found
from systone.server.call import Call, Reply

__all__ = ["Handler", "Routes"]

Handler: TypeAlias = Callable[[Call], Awaitable[Reply]]


class Routes:
    """Handlers by path, of those that are got and those that are posted to."""

    def __init__(self, get: Mapping[str, Handler], post: Mapping[str, Handler]) -> None:
        self._by_path: dict[str, dict[str, Handler]] = {}
        for path, handler in get.items():
            self._by_path.setdefault(path, {}).update(GET=handler, HEAD=handler)
        for path, handler in post.items():
            self._by_path.setdefault(path, {})["POST"] = handler

    async def __call__(self, call: Call) -> Reply:
        """Raises RequestError (404, 405), and what the handler raises."""
        handlers = self._by_path.get(call.path)
        if handlers is None:
            raise not_found(call.path)
        handler = handlers.get(call.method)
        if handler is None:
            raise method_not_allowed(call.method, sorted(handlers))
        return await handler(call)
