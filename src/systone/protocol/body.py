"""From the bytes of an HTTP body to plain JSON text or multipart bytes.

Owns content types and content encodings (identity, gzip, zstd), all bounded in decoded size;
never looks inside the JSON. Sizes are bytes.
"""

from __future__ import annotations

import io
import zlib
from typing import Literal, TypeAlias

import zstandard

from systone.errors import RequestError
from systone.protocol.refusals import body_too_large, unsupported_media_type

__all__ = ["MediaKind", "decode_body", "media_kind"]

MediaKind: TypeAlias = Literal["json", "multipart"]

_MAX_ENCODINGS = 4
# Gzip members or zstd frames in one body: each costs a copy of what follows it.
_MAX_SECTIONS = 64
# The window every zstd HTTP decoder must support, and need not exceed (RFC 9659).
_MAX_ZSTD_WINDOW = 8 * 1024 * 1024


def media_kind(content_type: str | None) -> MediaKind:
    """What a Content-Type header announces; none at all reads as JSON. Raises 415 otherwise."""
    media = (content_type or "application/json").partition(";")[0].strip().lower()
    if media == "application/json" or (media.startswith("application/") and media[-5:] == "+json"):
        return "json"
    if media == "multipart/form-data":
        return "multipart"
    raise unsupported_media_type(
        f"Content-Type {media[:100]} is not read here;"
        " send application/json or multipart/form-data."
    )


def decode_body(data: bytes, encoding: str | None, *, max_bytes: int) -> bytes:
    """The body without its Content-Encoding.

    Raises RequestError: 413 when it is, or would become, larger than `max_bytes`; 415 for an
    encoding we don't know; 400 for a damaged or truncated stream."""
    if len(data) > max_bytes:
        raise body_too_large(max_bytes)
    names = [name for part in (encoding or "").split(",") if (name := part.strip().lower())]
    if len(names) > _MAX_ENCODINGS:
        raise unsupported_media_type(f"More than {_MAX_ENCODINGS} content encodings.")
    for name in reversed(names):  # listed in the order they were applied
        if name in ("gzip", "x-gzip"):
            data = _gunzip(data, max_bytes)
        elif name == "zstd":
            data = _unzstd(data, max_bytes)
        elif name != "identity":
            raise unsupported_media_type(
                f"Content-Encoding {name[:50]} is not supported; use identity, gzip or zstd."
            )
    return data


def _gunzip(data: bytes, max_bytes: int) -> bytes:
    """All members of a gzip stream."""
    out = bytearray()
    rest = data
    for _ in range(_MAX_SECTIONS):
        member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            out += member.decompress(rest, max_bytes + 1 - len(out))
        except zlib.error as error:
            raise _damaged("gzip", str(error)) from None
        if len(out) > max_bytes:
            raise body_too_large(max_bytes)
        if not member.eof:
            raise _damaged("gzip", "the stream ends too early")
        rest = member.unused_data
        if not rest:
            return bytes(out)
    raise _damaged("gzip", f"it has more than {_MAX_SECTIONS} members")


def _unzstd(data: bytes, max_bytes: int) -> bytes:
    """All frames of a zstd stream."""
    context = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW)
    try:
        # The reader bounds the output but takes a truncated frame for an end of file ...
        with context.stream_reader(io.BytesIO(data), read_across_frames=True) as reader:
            if len(reader.read(max_bytes + 1)) > max_bytes:
                raise body_too_large(max_bytes)
        # ... while this one is unbounded but knows whether each frame was complete.
        out = bytearray()
        rest = data
        for _ in range(_MAX_SECTIONS):
            frame = context.decompressobj()
            out += frame.decompress(rest)
            if not frame.eof:
                raise _damaged("zstd", "the stream ends too early")
            rest = frame.unused_data
            if not rest:
                return bytes(out)
    except zstandard.ZstdError as error:
        raise _damaged("zstd", str(error)) from None
    raise _damaged("zstd", f"it has more than {_MAX_SECTIONS} frames")


def _damaged(encoding: str, why: str) -> RequestError:
    return RequestError.at(
        (),
        f"The body is not a usable {encoding} stream: {why}.",
        type="invalid_encoding",
        status=400,
        code="invalid_encoding",
    )
