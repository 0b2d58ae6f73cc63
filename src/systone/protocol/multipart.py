"""multipart/form-data bodies (RFC 7578): a `request` part of JSON text, then parts of bytes.

Owns the split into parts; what a part is for is decided by the request's `assets`. A body here is
already decoded and in memory, so it is cut at its boundary rather than streamed.
"""

from __future__ import annotations

from email.message import Message

from systone.errors import RequestError
from systone.protocol.assets import MAX_ASSETS
from systone.protocol.refusals import body_too_large

__all__ = ["split_multipart"]

_MAX_PARTS = MAX_ASSETS + 1  # the request, and as many images as it may name


def split_multipart(
    content_type: str, data: bytes, *, max_bytes: int
) -> tuple[bytes, dict[str, bytes]]:
    """The JSON text of the part named `request`, and the other parts by name in body order.

    Raises RequestError (400) for a body that is not well formed, 413 over `max_bytes`."""
    if len(data) > max_bytes:
        raise body_too_large(max_bytes)
    boundary = _parameter("content-type", content_type, "boundary")
    if not boundary or len(boundary) > 70:
        raise _malformed("the Content-Type header names no usable boundary")
    try:
        delimiter = b"\r\n--" + boundary.encode("ascii")
    except UnicodeEncodeError:
        raise _malformed("the boundary is not ASCII") from None
    pieces = (b"\r\n" + data).split(delimiter, _MAX_PARTS + 1)
    if len(pieces) > _MAX_PARTS + 1 and not pieces[-1].startswith(b"--"):
        raise _malformed(f"it has more than {_MAX_PARTS} parts")
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        raise _malformed("the closing boundary is missing")
    parts: dict[str, bytes] = {}
    for piece in pieces[1:-1]:
        name, content = _part(piece)
        if name in parts:
            raise _malformed(f"the part {name[:100]!r} appears twice")
        parts[name] = content
    request = parts.pop("request", None)
    if request is None:
        raise _malformed("there is no part named 'request' with the JSON text")
    return request, parts


def _part(piece: bytes) -> tuple[str, bytes]:
    """Name and content of what stands between two delimiters."""
    padding, end, rest = piece.partition(b"\r\n")  # blanks may follow a boundary (RFC 2046)
    if not end or padding.strip(b" \t"):
        raise _malformed("a boundary is not followed by a line break")
    head, blank, content = (b"\r\n" + rest).partition(b"\r\n\r\n")
    if not blank:
        raise _malformed("a part has no blank line after its headers")
    for line in head.decode("utf-8", "replace").split("\r\n"):
        field, _, value = line.partition(":")
        if field.strip().lower() == "content-disposition":
            name = _parameter("content-disposition", value.strip(), "name")
            if name:
                return name, content
    raise _malformed("a part has no name")


def _parameter(header: str, value: str, parameter: str) -> str | None:
    """A parameter of a structured header, unquoted."""
    message = Message()
    message[header] = value.replace("\r", " ").replace("\n", " ")
    found = message.get_param(parameter, header=header)
    return found if isinstance(found, str) else None


def _malformed(why: str) -> RequestError:
    return RequestError.at(
        (),
        f"The multipart body can't be read: {why}.",
        type="invalid_multipart",
        status=400,
        code="invalid_multipart",
    )
