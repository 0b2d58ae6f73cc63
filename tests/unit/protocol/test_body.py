"""Content types and encodings, bounded before and after decompression."""

from __future__ import annotations

import gzip

import pytest
import zstandard

from systone.errors import RequestError
from systone.protocol.body import decode_body, media_kind

TEXT = b'{"state": "' + b"parcel " * 400 + b'"}'
LIMIT = 1_000_000


def zstd(data: bytes, **options: bool) -> bytes:
    return zstandard.ZstdCompressor(**options).compress(data)


def zstd_streamed(data: bytes) -> bytes:
    """A frame that doesn't announce its content size."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


@pytest.mark.parametrize("encoding", [None, "", "identity", "Identity"])
def test_identity_is_passed_on(encoding: str | None) -> None:
    assert decode_body(TEXT, encoding, max_bytes=LIMIT) == TEXT


@pytest.mark.parametrize(
    ("encoding", "data", "text"),
    [
        ("zstd", zstd(TEXT), TEXT),
        ("ZSTD", zstd_streamed(TEXT), TEXT),
        ("zstd", zstd(TEXT[:100]) + zstd_streamed(TEXT[100:]), TEXT),
        ("gzip", gzip.compress(TEXT), TEXT),
        ("x-gzip", gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:]), TEXT),
        ("gzip, zstd", zstd(gzip.compress(TEXT)), TEXT),
        ("zstd", zstd(b""), b""),
        ("gzip", gzip.compress(b""), b""),
    ],
)
def test_compressed_bodies_are_decoded(encoding: str, data: bytes, text: bytes) -> None:
    assert decode_body(data, encoding, max_bytes=LIMIT) == text


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, br", "snappy" * 100])
def test_an_unknown_encoding_is_415(encoding: str) -> None:
    with pytest.raises(RequestError) as caught:
        decode_body(TEXT, encoding, max_bytes=LIMIT)
    assert caught.value.status == 415
    assert "zstd" in str(caught.value)


def test_a_chain_of_encodings_is_bounded() -> None:
    with pytest.raises(RequestError) as caught:
        decode_body(TEXT, ",".join(["gzip"] * 5), max_bytes=LIMIT)
    assert caught.value.status == 415


@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
@pytest.mark.parametrize("damage", ["truncated", "garbage", "tail", "empty"])
def test_a_damaged_stream_is_400(encoding: str, damage: str) -> None:
    whole = zstd(TEXT) if encoding == "zstd" else gzip.compress(TEXT)
    data = {
        "truncated": whole[:-3],
        "garbage": b"not compressed at all",
        "tail": whole + b"garbage after the end",
        "empty": b"",
    }[damage]
    with pytest.raises(RequestError) as caught:
        decode_body(data, encoding, max_bytes=LIMIT)
    assert caught.value.status == 400
    assert encoding in str(caught.value)


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        (None, b"x" * 101),
        ("zstd", zstd(b"\0" * 50_000_000)),
        ("zstd", zstd_streamed(b"\0" * 50_000_000)),
        ("zstd", zstd(b"\0" * 60) + zstd(b"\0" * 60)),
        ("gzip", gzip.compress(b"\0" * 500)),
        ("gzip", gzip.compress(b"\0" * 60) + gzip.compress(b"\0" * 60)),
    ],
)
def test_a_body_over_the_limit_is_413(encoding: str | None, data: bytes) -> None:
    limit = max(100, len(data)) if encoding else 100
    with pytest.raises(RequestError) as caught:
        decode_body(data, encoding, max_bytes=limit)
    assert caught.value.status == 413
    assert caught.value.code == "body_too_large"


def test_a_body_of_countless_sections_is_refused() -> None:
    for data, encoding in ((gzip.compress(b""), "gzip"), (zstd(b""), "zstd")):
        assert decode_body(data * 64, encoding, max_bytes=LIMIT) == b""
        with pytest.raises(RequestError) as caught:
            decode_body(data * 65, encoding, max_bytes=LIMIT)
        assert "more than 64" in str(caught.value)


def test_a_body_of_exactly_the_limit_passes() -> None:
    assert decode_body(b"x" * 100, None, max_bytes=100) == b"x" * 100
    assert decode_body(zstd(b"x" * 100), "zstd", max_bytes=100) == b"x" * 100
    assert decode_body(gzip.compress(b"x" * 100), "gzip", max_bytes=100) == b"x" * 100


def test_a_window_larger_than_http_allows_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    big = zstandard.ZstdCompressor(compression_params=parameters)
    stream = big.compressobj()
    data = stream.compress(b"x" * 1000) + stream.flush()
    with pytest.raises(RequestError) as caught:
        decode_body(data, "zstd", max_bytes=LIMIT)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        (None, "json"),
        ("application/json", "json"),
        ("Application/JSON; charset=utf-8", "json"),
        ("application/vnd.api+json", "json"),
        ("multipart/form-data; boundary=x", "multipart"),
    ],
)
def test_known_media_types(header: str | None, kind: str) -> None:
    assert media_kind(header) == kind


@pytest.mark.parametrize("header", ["text/plain", "application/x-www-form-urlencoded", "image/png"])
def test_another_media_type_is_415(header: str) -> None:
    with pytest.raises(RequestError) as caught:
        media_kind(header)
    assert caught.value.status == 415
    assert header in str(caught.value)
    assert "application/json" in str(caught.value)
