"""What the server knows of one HTTP request beside its body: ids, times, the form of its errors.

Lives in the ASGI scope from the moment the headers are in until the reply is out.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from systone.protocol.errors import Form

__all__ = ["Call", "call_of", "server_timing"]

_KEY = "systone.call"
_SANE_ID = re.compile(rb"[A-Za-z0-9._:\-]{1,128}")


@dataclass(slots=True)
class Call:
    """`arrived`: when the headers were in, by the server's clock. `steps`: seconds by name."""

    request_id: str
    arrived: float
    form: Form
    status: int = 0
    left: bool = False  # the caller disconnected before the reply
    steps: dict[str, float] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)  # to add to the reply

    @classmethod
    def begin(
        cls,
        scope: MutableMapping[str, Any],
        arrived: float,
        form: Form,
        id_headers: Sequence[bytes] = (b"x-request-id",),
    ) -> Call:
        """Put a new call into an ASGI scope. A caller's own id, from the first of `id_headers`
        that is sent, is kept if it is sane."""
        call = cls(_request_id(scope["headers"], id_headers), arrived, form)
        scope[_KEY] = call
        return call


def call_of(scope: Mapping[str, Any]) -> Call:
    call = scope[_KEY]
    if not isinstance(call, Call):
        raise AssertionError("every request enters through the edge")
    return call


def _request_id(headers: Iterable[tuple[bytes, bytes]], wanted: Sequence[bytes]) -> str:
    sane = {name: value for name, value in headers if _SANE_ID.fullmatch(value)}
    for name in wanted:
        if name in sane:
            return sane[name].decode("ascii")
    return "req_" + secrets.token_hex(12)


def server_timing(steps: Mapping[str, float], total_s: float, whole: str = "total") -> str:
    """The Server-Timing header: milliseconds of each step that happened, then all of it."""
    shown = [f"{name};dur={1e3 * seconds:.3f}" for name, seconds in steps.items()]
    return ", ".join([*shown, f"{whole};dur={1e3 * total_s:.3f}"])
