"""One keep-alive HTTP/1.1 connection: bytes out, a whole reply in. As little Python as possible.

A plain blocking socket and a compiled parser: the client's own time is part of every latency.
Knows no request's meaning.
"""

from __future__ import annotations

import select
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

import httptools

from systone.errors import ConfigError

__all__ = ["Address", "Connection", "Reply"]

_CHUNK = 256 * 1024


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests go. `path` ends in /v1/systemone."""

    host: str
    port: int
    path: str = "/v1/systemone"
    api_key: str | None = None

    @classmethod
    def of(cls, url: str, api_key: str | None = None) -> Address:
        """A server's root or its full route. Raises ConfigError for anything but plain http."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or 80
        except ValueError as error:
            raise ConfigError(f"{url}: {error}") from None
        if parts.scheme != "http" or not host or parts.query or parts.fragment:
            raise ConfigError(f"{url}: must be http://HOST[:PORT][/PATH]")
        root = parts.path.rstrip("/").removesuffix("/v1/systemone")
        return cls(host, port, f"{root}/v1/systemone", api_key)

    @property
    def root(self) -> str:
        return self.path.removesuffix("/v1/systemone")

    @property
    def text(self) -> str:
        """HOST:PORT as a Host header gives it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def encode(self, body: bytes, request_id: str) -> bytes:
        """The whole request, ready to be sent."""
        key = f"authorization: Bearer {self.api_key}\r\n" if self.api_key else ""
        head = (
            f"POST {self.path} HTTP/1.1\r\nhost: {self.text}\r\ncontent-type: application/json\r\n"
            f"accept: application/json\r\nx-request-id: {request_id}\r\n{key}"
            f"content-length: {len(body)}\r\n\r\n"
        )
        return head.encode("latin-1") + body


class Reply:
    """A reply while it arrives: the parser calls these."""

    __slots__ = ("chunks", "complete", "keeps_alive", "parser", "timing")

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.chunks: list[bytes] = []
        self.complete = False
        self.keeps_alive = False
        self.timing = ""  # the Server-Timing header

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"server-timing":
            self.timing = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self.chunks.append(body)

    def on_message_complete(self) -> None:
        self.keeps_alive = self.parser.should_keep_alive()  # only now: the parser resets after it
        self.complete = True

    @property
    def body(self) -> bytes:
        return self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)


class Connection:
    """Used by one thread at a time. `ask` raises OSError or httptools.HttpParserError."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._sock: socket.socket | None = None

    def open(self) -> None:
        """Connect unless connected; a connection the server has closed meanwhile is replaced."""
        if self._sock is not None and _has_ended(self._sock):
            self.close()
        if self._sock is None:
            sock = socket.create_connection(
                (self._address.host, self._address.port), self._timeout_s
            )
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sock = sock

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def ask(self, request: bytes) -> tuple[int, Reply]:
        """Send one encoded request and take in its whole reply: (status, reply)."""
        if self._sock is None:
            raise ConnectionError("not connected")
        reply = Reply()
        try:
            self._sock.sendall(request)
            while not reply.complete:
                data = self._sock.recv(_CHUNK)
                if not data:
                    raise ConnectionError("the server closed the connection before its reply ended")
                reply.parser.feed_data(data)
        except BaseException:
            self.close()  # what else is in the socket belongs to this request
            raise
        status = reply.parser.get_status_code()
        del reply.parser  # it refers back to the reply: nothing would free either
        if not reply.keeps_alive:
            self.close()
        return status, reply


def _has_ended(sock: socket.socket) -> bool:
    """Nothing is owed between requests: whatever can be read is the end, or nonsense."""
    return bool(select.select([sock], [], [], 0)[0])
