"""Text slots: exact spelling against an independent writer, and refusals that name the field."""

import json
import math
from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systone.errors import RequestError
from systone.models.pytext import float_text, json_text, round4, text_of

LOC = ("questions", "q", "choice", "criteria", "a")
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)

SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def quoted(text):
    return '"' + "".join(SHORT.get(c, c if c >= " " else f"\\u{ord(c):04x}") for c in text) + '"'


def written(value, sort):
    """The contract's rules spelled out one by one, independent of the json module."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return "[" + ", ".join(written(v, sort) for v in value) + "]"
    if isinstance(value, dict):
        keys = sorted(value) if sort else list(value)
        return "{" + ", ".join(f"{quoted(k)}: {written(value[k], sort)}" for k in keys) + "}"
    return repr(value)


@given(values, st.booleans())
def test_json_text_follows_the_rules_to_the_byte(value, sort):
    assert json_text(value, sort_keys=sort) == written(value, sort)


@given(values)
def test_json_text_reads_back_to_the_same_value(value):
    assert json.loads(json_text(value)) == value
    assert json.loads(json_text(value, sort_keys=True)) == value


def test_the_published_example_renders_exactly():
    state = {"z": [1.0, 1e16, -0.0, True, None, "猫"], "a": {"β": "z", "a": "first"}}
    assert text_of(state, LOC, sort_keys=True) == (
        '{"a": {"a": "first", "β": "z"}, "z": [1.0, 1e+16, -0.0, true, null, "猫"]}'
    )
    assert text_of(state, LOC) == (
        '{"z": [1.0, 1e+16, -0.0, true, null, "猫"], "a": {"β": "z", "a": "first"}}'
    )


def test_big_integers_and_raw_separators_are_kept():
    assert json_text([12345678901234567890, "\u2028\x7f\x1f"]) == (
        '[12345678901234567890, "\u2028\x7f\\u001f"]'
    )


def test_a_string_is_read_verbatim():
    assert text_of('a "quoted"\nline', LOC) == 'a "quoted"\nline'
    assert text_of("", LOC) == ""


@pytest.mark.parametrize(
    "value", [[math.nan], {"a": math.inf}, [-math.inf], [object()], {"a": {1}}]
)
def test_values_without_json_text_name_their_field(value):
    with pytest.raises(RequestError) as caught:
        text_of(value, LOC)
    assert caught.value.faults[0].loc == LOC
    assert caught.value.status == 422


def test_a_lone_surrogate_names_its_field():
    for value in ("ok \ud800", ["ok", "\udfff"], {"\ud83d": 1}):
        with pytest.raises(RequestError, match="lone surrogate") as caught:
            text_of(value, LOC)
        assert caught.value.faults[0].loc == LOC


def test_runaway_nesting_is_a_request_error_not_a_crash():
    value = []
    for _ in range(200_000):
        value = [value]
    with pytest.raises(RequestError, match="deeply"):
        text_of(value, LOC)
    while value:  # taken apart level by level: freeing it in one go would recurse
        value = value.pop()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (1e16, "1e+16"),
        (1e-5, "1e-05"),
        (-0.0, "-0.0"),
        (0.1 + 0.2, "0.30000000000000004"),
    ],
)
def test_float_text_is_pythons_repr(value, text):
    assert float_text(value) == text


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_float_text_refuses_what_json_has_no_text_for(value):
    with pytest.raises(ValueError, match="no JSON text"):
        float_text(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.00005, 0.0001), (0.00015, 0.0001), (0.03125, 0.0312), (0.09375, 0.0938), (0.12345, 0.1235)],
)
def test_round4_rounds_the_exact_binary_value(value, expected):
    assert round4(value) == expected


@given(st.floats(0, 1))
def test_round4_equals_exact_decimal_rounding(value):
    exact = Decimal(value).quantize(Decimal("0.0001"), ROUND_HALF_EVEN)
    assert Decimal(repr(round4(value))) == exact.normalize() or round4(value) == float(exact)
