"""multipart/form-data bodies (RFC 7578): a `request` part of JSON text, then parts of bytes.

Owns which bodies are refused; the splitting is python-multipart's. What a part is for is decided by
the request's `assets`. A body here is already decoded and in memory, and its parts stay there.
"""

from __future__ import annotations

import math

from python_multipart.exceptions import FormParserError, ParseError
from python_multipart.multipart import Field, File, FormParser, parse_options_header

from systone.errors import RequestError
from systone.protocol.refusals import body_too_large
from systone.protocol.shapes import MAX_ASSETS

__all__ = ["split_multipart"]

_MAX_PARTS = MAX_ASSETS + 1  # the request, and as many images as it may name
# Opens a part of our own before the body, so that a preamble (RFC 2046) is that part's content.
_OPENING = b'--%b\r\nContent-Disposition: form-data; name="preamble"\r\n\r\n\r\n%b'


def split_multipart(
    content_type: str, data: bytes, *, max_bytes: int
) -> tuple[bytes, dict[str, bytes]]:
    """The JSON text of the part named `request`, and the other parts by name in body order.

    Raises RequestError (400) for a body that is not well formed, 413 over `max_bytes`."""
    if len(data) > max_bytes:
        raise body_too_large(max_bytes)
    _, parameters = parse_options_header(content_type.encode("latin-1", "replace"))
    boundary = parameters.get(b"boundary", b"")
    if not 1 <= len(boundary) <= 70:
        raise _malformed("the Content-Type header names no usable boundary")
    if not boundary.isascii():
        raise _malformed("the boundary is not ASCII")
    parts: dict[str, bytes] = {}
    for name, content in _parts(_OPENING % (boundary, data), boundary)[1:]:
        if name in parts:
            raise _malformed(f"the part {name[:100]!r} appears twice")
        parts[name] = content
    request = parts.pop("request", None)
    if request is None:
        raise _malformed("there is no part named 'request' with the JSON text")
    return request, parts


def _parts(body: bytes, boundary: bytes) -> list[tuple[str, bytes]]:
    """Name and content of each part of a body that starts at a boundary."""
    delimiter = b"\r\n--" + boundary
    if body.count(delimiter) > _MAX_PARTS + 1:
        raise _malformed(f"it has more than {_MAX_PARTS} parts")
    parts: list[tuple[str, bytes]] = []
    ends: list[bool] = []

    def keep(part: Field | File) -> None:
        if isinstance(part, File):
            part.file_object.seek(0)
            content = part.file_object.read()
        else:
            content = part.value or b""
        if delimiter in content:
            raise _malformed("a boundary is not followed by a line break")
        if not part.field_name:
            raise _malformed("a part has no name")
        parts.append((part.field_name.decode("utf-8", "replace"), content))

    in_memory = {"MAX_MEMORY_FILE_SIZE": math.inf}
    form = "multipart/form-data"
    parser = FormParser(form, keep, keep, lambda: ends.append(True), boundary, config=in_memory)
    try:
        parser.write(body)
    except ParseError as error:
        raise _malformed(
            f"a part is damaged, or no blank line follows its headers ({error})"
        ) from None
    except FormParserError:
        raise _malformed("a part has no name") from None
    if not ends:
        raise _malformed("the closing boundary is missing")
    return parts


def _malformed(why: str) -> RequestError:
    return RequestError.at(
        (),
        f"The multipart body can't be read: {why}.",
        type="invalid_multipart",
        status=400,
        code="invalid_multipart",
    )
