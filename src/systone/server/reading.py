"""Reading a request body: bounded while it streams in, decoded, split if it is multipart.

A body that says, or turns out, to be over the limit is refused with 413 before more of it is kept.
The rest of it is left to the HTTP layer, which discards it. Sizes are bytes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import lru_cache

from systone.protocol.body import MediaKind, decode_body, media_kind
from systone.protocol.multipart import split_multipart
from systone.protocol.refusals import body_too_large, unsupported_media_type
from systone.server.call import Call
from systone.server.edge import ClientLeftError

__all__ = ["Sent", "read_sent", "unpack"]


@dataclass(frozen=True, slots=True)
class Sent:
    """A body as it came over the wire, and the headers that say what it is."""

    data: bytes
    kind: MediaKind
    content_type: str | None
    encoding: str | None


async def read_sent(call: Call, max_bytes: int, left_s: float | None) -> Sent:
    """Raises RequestError (413, 415), ClientLeftError if the caller went away meanwhile,
    TimeoutError."""
    content_type = call.header(b"content-type")
    kind = _readable(content_type)  # refuses before the body is read
    length = call.header(b"content-length") or ""
    if length.isdecimal() and int(length) > max_bytes:
        raise body_too_large(max_bytes)
    data = call.line.take_body() if call.line is not None else None
    if data is None:
        async with asyncio.timeout(left_s):
            data = await _read(call, max_bytes)
    elif len(data) > max_bytes:
        raise body_too_large(max_bytes)
    return Sent(data, kind, content_type, call.header(b"content-encoding"))


async def _read(call: Call, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await call.receive()
        if message["type"] == "http.disconnect":
            raise ClientLeftError
        chunk = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(chunk)
        if size > max_bytes:
            raise body_too_large(max_bytes)
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def unpack(sent: Sent, max_bytes: int) -> tuple[bytes, dict[str, bytes]]:
    """The JSON text, and a multipart body's other parts by name. Raises RequestError."""
    data = sent.data
    if sent.encoding is not None:
        data = decode_body(data, sent.encoding, max_bytes=max_bytes)
    if sent.kind == "multipart":
        return split_multipart(sent.content_type or "", data, max_bytes=max_bytes)
    return data, {}


@lru_cache(64)  # of what was accepted: callers send the same few
def _readable(content_type: str | None) -> MediaKind:
    """The media type, if it is read here. JSON is UTF-8 (RFC 8259); another declared charset is
    refused, not guessed around."""
    kind = media_kind(content_type)
    for parameter in (content_type or "").split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        charset = value.strip('"').lower()
        if name.lower() == "charset" and charset not in ("utf-8", "utf8", "us-ascii"):
            raise unsupported_media_type(f"Charset {charset[:50]} is not read here; send UTF-8.")
    return kind
