"""What the server knows of one HTTP request beside its body: ids, headers, times, its reply.

Lives from the moment the headers are in until the reply is out. A reply may be written by the
thread that made it, over the connection's `Line`; the event loop sends it otherwise.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from systone.protocol.errors import Form

if TYPE_CHECKING:
    from starlette.types import Receive

__all__ = ["LINE", "Call", "Line", "Reply", "server_timing"]

LINE = "systone.line"  # where a connection that has one puts it in an ASGI scope
JSON = "application/json"
_SANE_ID = re.compile(rb"[A-Za-z0-9._:\-]{1,128}")


class Line(Protocol):
    """One exchange's direct way to its connection. All but `write` are for the event loop."""

    def take_body(self) -> bytes | None:
        """The body, once, if all of it has arrived."""

    def watch(self, lost: Callable[[], None]) -> None:
        """`lost` is called when the caller disconnects before the exchange ends."""

    def clear(self) -> bool:
        """When the exchange's turn has come: whether `write` may be used."""

    def write(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """The whole reply, from any thread. False: nothing was written, and nothing will be."""

    def end(self) -> None:
        """Nothing more is written here; the exchange is over if the reply was."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply as a route gives it."""

    body: bytes
    status: int = 200
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Call:
    """`arrived`: when the headers were in, by the server's clock. `steps`: seconds by name."""

    method: str
    path: str
    receive: Receive
    sent: Mapping[bytes, bytes]  # headers; the first of each name
    request_id: str
    arrived: float
    form: Form
    line: Line | None = None
    write: Callable[[Reply], bool] | None = None  # from any thread; True if it is on the wire
    status: int = 0  # of the reply that is on the wire
    took_s: float = 0.0  # until then
    left: bool = False  # the caller disconnected before the reply
    steps: dict[str, float] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)  # to add to the reply

    @classmethod
    def begin(
        cls,
        scope: MutableMapping[str, Any],
        receive: Receive,
        arrived: float,
        form: Form,
        id_headers: Sequence[bytes] = (b"x-request-id",),
    ) -> Call:
        """The call of an ASGI scope. A caller's own id, from the first of `id_headers` that is
        sane, is kept."""
        headers = scope["headers"]
        sent = dict(reversed(headers))
        request_id = _request_id(sent, id_headers)
        return cls(scope["method"], scope["path"], receive, sent, request_id, arrived, form)

    def header(self, name: bytes) -> str | None:
        """A header the caller sent; its name in lower case."""
        value = self.sent.get(name)
        return None if value is None else value.decode("latin-1")


def _request_id(sent: Mapping[bytes, bytes], wanted: Sequence[bytes]) -> str:
    for name in wanted:
        if _SANE_ID.fullmatch(sent.get(name, b"")):
            return sent[name].decode("ascii")
    return "req_" + secrets.token_hex(12)


def server_timing(steps: Mapping[str, float], total_s: float, whole: str = "total") -> str:
    """The Server-Timing header: milliseconds of each step that happened, then all of it."""
    shown = [f"{name};dur={1e3 * seconds:.3f}" for name, seconds in steps.items()]
    return ", ".join([*shown, f"{whole};dur={1e3 * total_s:.3f}"])
