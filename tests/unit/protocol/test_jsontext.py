"""Strict JSON: what is refused and with which sentence, and what is kept to the bit."""

from __future__ import annotations

import json
import math
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systone.errors import EngineFaultError, RequestError
from systone.protocol import jsontext

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


def refusal(data: bytes) -> tuple[str, str]:
    with pytest.raises(RequestError) as caught:
        jsontext.loads(data)
    assert caught.value.status == 422
    (fault,) = caught.value.faults
    return fault.type, fault.msg


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (b'{"a":1,"a":2}', "duplicate_key", 'the key "a" is repeated'),
        (b'{"x":{"b":1,"c":2,"b":3}}', "duplicate_key", 'the key "b" is repeated'),
        (b'{"a":1,"\\u0061":2}', "duplicate_key", 'the key "a" is repeated'),
        (b"NaN", "json_invalid", "NaN and Infinity"),
        (b"[Infinity]", "json_invalid", "NaN and Infinity"),
        (b'{"a":-Infinity}', "json_invalid", "NaN and Infinity"),
        (b"1e999", "non_finite_number", "too large"),
        (b"[-1e999]", "non_finite_number", "too large"),
        (b'{"a":[1.7976931348623159e308]}', "non_finite_number", "too large"),
        (b"1" + b"0" * 400 + b".0", "non_finite_number", "too large"),
        (b"1" * 4301, "json_invalid", "more than 4300 digits"),
        (b'"\\ud800"', "json_invalid", "lone surrogate"),
        (b'"\\ud800\\ud800"', "json_invalid", "lone surrogate"),
        (b'"\\udc00x"', "json_invalid", "lone surrogate"),
        (b'"\xff"', "json_invalid", "not valid UTF-8"),
        (b'"\xed\xa0\x80"', "json_invalid", "not valid UTF-8"),
        (b'\xef\xbb\xbf{"a":1}', "json_invalid", "byte order mark"),
        ('{"a":1}'.encode("utf-16"), "json_invalid", "not valid UTF-8"),
        (b"{} x", "json_invalid", "more text after"),
        (b"{}{}", "json_invalid", "more text after"),
        (b"", "json_invalid", "body is empty"),
        (b" \n", "json_invalid", "body is empty"),
        (b'{"a":', "json_invalid", "ends too early"),
        (b"[1,]", "json_invalid", "trailing comma"),
        (b"{'a':1}", "json_invalid", "key must be a string"),
        (b'"a\nb"', "json_invalid", "control character"),
        (b"01", "json_invalid", "invalid number"),
        (b"/*x*/1", "json_invalid", "expected value"),
    ],
)
def test_refuses_with_a_sentence(data: bytes, kind: str, words: str) -> None:
    found, msg = refusal(data)
    assert found == kind
    assert words in msg
    assert msg.startswith("Invalid JSON: ")


def test_a_syntax_fault_is_located_by_byte_offset() -> None:
    with pytest.raises(RequestError) as caught:
        jsontext.loads(b'{"a": 1,\n "b": x}')
    assert caught.value.faults[0].loc == (15,)
    with pytest.raises(RequestError) as caught:
        jsontext.loads(b"\n\n[1,\n\n x]")
    assert caught.value.faults[0].loc == (8,)
    with pytest.raises(RequestError) as caught:
        jsontext.loads(b'["ab\xff"]')
    assert caught.value.faults[0].loc == (4,)


def test_an_overflowing_number_is_located_by_its_path() -> None:
    with pytest.raises(RequestError) as caught:
        jsontext.loads(b'{"state": {"a": [1, 1e999]}, "b": 1e999}')
    assert caught.value.faults[0].loc == ("state", "a", 1)


def test_a_long_repeated_key_is_cut_in_the_message() -> None:
    key = b'"' + b"k" * 10_000 + b'"'
    _, msg = refusal(b"{" + key + b":1," + key + b":2}")
    assert len(msg) < 400


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_is_bounded_at_64_containers(opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"

    def nested(depth: int, core: bytes) -> bytes:
        return opening * depth + core + closing * depth

    assert jsontext.loads(nested(64, b"1.5"))
    assert jsontext.loads(nested(63, b"[]"))
    for depth, core in ((65, b"1"), (64, b"[]"), (64, b"{}"), (199, b"1"), (200, b"1")):
        kind, msg = refusal(nested(depth, core))
        assert kind == "nesting_too_deep"
        assert "64" in msg
    for depth in (1_000, 100_000):
        assert refusal(nested(depth, b"1"))[0] == "nesting_too_deep"


def test_a_container_that_is_too_deep_is_located_by_its_path() -> None:
    with pytest.raises(RequestError) as caught:
        jsontext.loads(b"[" * 65 + b"]" * 65)
    assert caught.value.faults[0].loc == (0,) * 64


def test_unclosed_nesting_is_no_recursion_error() -> None:
    assert refusal(b"[" * 1_000_000)[0] == "nesting_too_deep"


def test_an_overflow_below_the_last_allowed_level_is_found() -> None:
    assert refusal(b"[" * 64 + b"1e999" + b"]" * 64)[0] == "non_finite_number"


def test_wide_is_not_deep() -> None:
    data = b"[" + b",".join([b"[]"] * 1000) + b"]"
    assert jsontext.loads(data) == [[]] * 1000


@pytest.mark.parametrize(
    "text",
    ["12345678901234567890", "-18446744073709551617", "1" * 4300, "0", "-0", "1.0", "1E+5", "-0.0"],
)
def test_numbers_read_as_python_reads_them(text: str) -> None:
    value = jsontext.loads(text.encode())
    expected = json.loads(text)
    assert type(value) is type(expected)
    assert repr(value) == repr(expected)


@given(st.integers(0, 2**64 - 1), st.sampled_from(["%r", "%.17g", "%.25e"]))
def test_floats_are_read_to_the_nearest_bit(bits: int, form: str) -> None:
    number = struct.unpack("<d", struct.pack("<Q", bits))[0]
    if not math.isfinite(number):
        return
    text = form % number
    assert math.isinf(float(text)) or jsontext.loads(f"[{text}]".encode()) == [float(text)]


@given(JSON)
def test_reads_what_the_standard_library_writes(value: object) -> None:
    data = json.dumps(value).encode()
    found = jsontext.loads(data)
    assert repr(found) == repr(json.loads(data))  # types, key order and float bits


@given(JSON)
def test_written_text_reads_back_equal_and_in_order(value: object) -> None:
    data = jsontext.dumps(value)  # type: ignore[arg-type]
    assert repr(json.loads(data)) == repr(value)
    assert data == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda t: t.encode("utf-8", "replace")))
def test_arbitrary_bytes_are_a_value_or_a_request_error(data: bytes) -> None:
    with suppress(RequestError):
        jsontext.loads(data)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_is_never_written(number: float) -> None:
    with pytest.raises(EngineFaultError) as caught:
        jsontext.dumps({"p": [number]})
    assert caught.value.code == "non_finite_output"


def test_a_lone_surrogate_is_written_as_an_escape() -> None:
    assert jsontext.dumps(["\ud800é"]) == b'["\\ud800\xc3\xa9"]'
