"""Multipart bodies as the official Python SDK writes them, and damaged ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_multipart.multipart import File

from systone.errors import RequestError
from systone.protocol.multipart import split_multipart

TYPE = "multipart/form-data; boundary=B0und"


def body(*parts: tuple[str, bytes], boundary: str = "B0und") -> bytes:
    chunks = [
        f"--{boundary}\r\nContent-Disposition: form-data; {head}\r\n"
        f"Content-Type: application/octet-stream\r\n\r\n".encode()
        + content
        + b"\r\n"
        for head, content in parts
    ]
    return b"".join(chunks) + f"--{boundary}--\r\n".encode()


def split(data: bytes, content_type: str = TYPE) -> tuple[bytes, dict[str, bytes]]:
    return split_multipart(content_type, data, max_bytes=1_000_000)


def test_splits_the_request_from_the_assets() -> None:
    data = body(
        ('name="request"', b"{}"),
        ('name="asset-0"; filename="asset-0"', b"\x89PNG\r\n\x1a\n\r\n--B0un"),
        ('name="asset-1"; filename="a b.png"', b""),
    )
    request, parts = split(data)
    assert request == b"{}"
    assert parts == {"asset-0": b"\x89PNG\r\n\x1a\n\r\n--B0un", "asset-1": b""}
    assert list(parts) == ["asset-0", "asset-1"]


def test_accepts_quoted_boundaries_preambles_and_padding() -> None:
    data = b"preamble\r\n" + body(('name="request"', b"1")).replace(b"--B0und\r\n", b"--B0und \r\n")
    assert split(data, 'multipart/form-data; boundary="B0und"; charset=utf-8') == (b"1", {})


@given(st.lists(st.binary(max_size=50), max_size=4))
def test_any_bytes_survive(contents: list[bytes]) -> None:
    names = [f"asset-{i}" for i in range(len(contents))]
    parts = [(f'name="{n}"', c) for n, c in zip(names, contents, strict=True)]
    boundary = "a-boundary-that-no-short-content-holds-0123456789"
    data = body(('name="request"', b"{}"), *parts, boundary=boundary)
    assert split(data, f"multipart/form-data; boundary={boundary}") == (
        b"{}",
        dict(zip(names, contents, strict=True)),
    )


GOOD = body(('name="request"', b"{}"))


@pytest.mark.parametrize(
    ("data", "content_type", "words"),
    [
        (GOOD, "multipart/form-data", "boundary"),
        (GOOD, "multipart/form-data; boundary=" + "b" * 71, "boundary"),
        (GOOD, "multipart/form-data; boundary=Böund", "ASCII"),
        (GOOD, "multipart/form-data; boundary=other", "closing boundary"),
        (GOOD[:-6], TYPE, "closing boundary"),
        (b"", TYPE, "closing boundary"),
        (b"--B0und--\r\n", TYPE, "no part named 'request'"),
        (body(('name="asset-0"', b"x")), TYPE, "no part named 'request'"),
        (body(('name="request"', b"1"), ('name="request"', b"2")), TYPE, "twice"),
        (body(('filename="x"', b"1")), TYPE, "no name"),
        (b"--B0und\r\nX: y\r\n\r\n1\r\n--B0und--", TYPE, "no name"),
        (b"--B0und\r\nno headers end\r\n--B0und--", TYPE, "no blank line"),
        (b"--B0undtrailing\r\n\r\n1\r\n--B0und--", TYPE, "line break"),
        (body(('name="request"', b"1\r\n--B0undtrailing")), TYPE, "line break"),
        (body(('name="request"', b"1")).replace(b"und\r", b"und x\r"), TYPE, "is damaged"),
        (body(('name=""', b"1")), TYPE, "no name"),
        (body(("x\r\nA: b" * 9, b"1")), TYPE, "header count"),
        (body(("x" * 5000, b"1")), TYPE, "header size"),
        (b"\r\n--B0und-" * 100_000, TYPE, "more than 65 parts"),
        (body(*((f'name="p{i}"', b"") for i in range(70))), TYPE, "more than 65 parts"),
    ],
)
def test_a_malformed_body_is_400(data: bytes, content_type: str, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        split(data, content_type)
    assert caught.value.status == 400
    assert words in str(caught.value)


def test_the_largest_number_of_parts_passes() -> None:
    parts = [(f'name="p{i}"', b"") for i in range(64)]
    assert len(split(body(('name="request"', b"{}"), *parts))[1]) == 64


def test_large_parts_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: File) -> None:
        raise AssertionError("a caller's image must not be written to disk")

    monkeypatch.setattr(File, "flush_to_disk", refuse)
    image = b"\x89PNG" * 500_000
    data = body(('name="request"', b"{}"), ('name="asset-0"; filename="a"', image))
    _, parts = split_multipart(TYPE, data, max_bytes=len(data))
    assert parts == {"asset-0": image}


def test_a_body_over_the_limit_is_413() -> None:
    with pytest.raises(RequestError) as caught:
        split_multipart(TYPE, GOOD, max_bytes=len(GOOD) - 1)
    assert caught.value.status == 413


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_cleanly(data: bytes) -> None:
    with pytest.raises(RequestError):
        split(b"--B0und" + data)
