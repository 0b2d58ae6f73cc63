"""How much text a request holds: a cheap bound on the work of preparing it.

Units: characters, one outside of ASCII counting as three.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from systone.protocol.types import Request

__all__ = ["text_size"]


def text_size(request: Request, most: int) -> int:
    """The characters of every text, counted no further than past `most`; images are past it."""
    if request.assets:
        return most + 1
    size = 0
    left: list[Any] = [request.state]
    for question in request.questions.values():
        left += (question.instructions, question.criteria)
    while left and size <= most:
        value = left.pop()
        if type(value) is str:
            size += len(value) if value.isascii() else 3 * len(value)
        elif isinstance(value, (Mapping, list, tuple)):
            size += len(value)
            if size <= most:
                left += (*value.keys(), *value.values()) if isinstance(value, Mapping) else value
        else:
            size += 1
    return size
