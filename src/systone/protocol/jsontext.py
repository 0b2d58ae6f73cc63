"""Strict JSON text to values and back.

Owns what counts as JSON on our wire: UTF-8 without a byte order mark, no repeated key, no
NaN/Infinity (also none by overflow), no lone surrogate, at most 64 nested containers. Keeps
integers exact and keys in order. Knows no field of any request. Parsing is jiter's; what jiter
lets through (overflowing numbers, depth up to 200) is checked here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable

import jiter

from systone.errors import EngineFaultError, RequestError
from systone.protocol.types import Json

__all__ = ["MAX_DEPTH", "MAX_INTEGER_DIGITS", "dumps", "loads"]

# Containers open at once, the outermost object of the body included.
MAX_DEPTH = 64
# Python refuses to print longer integers, so a longer one could not be rendered again.
MAX_INTEGER_DIGITS = 4300

_INTERESTING = frozenset((dict, list, float))
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_AT = re.compile(r"(?s)(.*) at line (\d+) column (\d+)")
_MAX_SHOWN = 200

# jiter's words for the faults that deserve a plainer sentence.
_PLAINER = (
    ("EOF while parsing", "the text ends too early"),
    ("number out of range", f"an integer has more than {MAX_INTEGER_DIGITS} digits"),
    ("unexpected end of hex escape", "a string holds a lone surrogate escape"),
    ("lone leading surrogate", "a string holds a lone surrogate escape"),
    ("trailing characters", "there is more text after the JSON value"),
    ("control character", "a string holds an unescaped control character"),
)


def loads(data: bytes) -> Json:
    """The one JSON value in `data`. Raises RequestError (422) naming the fault and its place."""
    try:
        value: Json = jiter.from_json(
            data,
            allow_inf_nan=False,
            catch_duplicate_keys=True,
            cache_mode="none",  # a cache would keep callers' text alive in the process
        )
    except ValueError as error:
        raise _refusal(data, str(error)) from None
    if _needs_refusal(value):
        raise _out_of_bounds(value)
    return value


def dumps(value: Json) -> bytes:
    """Compact UTF-8 JSON, keys in order, floats at full precision.

    Raises EngineFaultError(code="non_finite_output") for NaN or infinity."""
    try:
        text = _ENCODER.encode(value)
    except ValueError:
        raise EngineFaultError(
            "The reply holds a number that is not finite.", code="non_finite_output"
        ) from None
    # A lone surrogate (from in-process text only) becomes its \udXXX escape, which is JSON.
    return text.encode("utf-8", "backslashreplace")


def _needs_refusal(value: Json) -> bool:
    """Whether a number overflowed or more than MAX_DEPTH containers are nested.

    Walks level by level, without recursion; most of a body's values are only looked at once."""
    level: list[Json] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Json] = []
        for item in level:
            if type(item) is dict:
                inner += [v for v in item.values() if type(v) in _INTERESTING]
            elif type(item) is list:
                inner += [v for v in item if type(v) in _INTERESTING]
            elif type(item) is float and math.isinf(item):
                return True
        if not inner:
            return False
        level = inner
    # What is left lies below 64 containers: floats may, containers may not.
    return any(type(v) is not float or math.isinf(v) for v in level)


def _out_of_bounds(value: Json) -> RequestError:
    """The error for the first value, in document order, that `_needs_refusal` found."""
    loc = _find(value, lambda v, _: type(v) is float and math.isinf(v))
    if loc is None:
        loc = _find(value, lambda v, depth: depth >= MAX_DEPTH and type(v) in (dict, list))
        return _too_deep(loc or ())
    return RequestError.at(
        loc,
        "Invalid JSON: the number is too large; numbers must lie within +-1.797e308.",
        type="non_finite_number",
    )


def _find(
    value: Json, wrong: Callable[[Json, int], bool], path: tuple[str | int, ...] = ()
) -> tuple[str | int, ...] | None:
    """Path of the first value, in document order, that is wrong at its depth.

    Recursion is bounded by jiter's own limit of about 200 levels."""
    if wrong(value, len(path)):
        return path
    if type(value) is dict:
        items: list[tuple[str | int, Json]] = list(value.items())
    elif type(value) is list:
        items = list(enumerate(value))
    else:
        return None
    for key, child in items:
        found = _find(child, wrong, (*path, key))
        if found is not None:
            return found
    return None


def _refusal(data: bytes, message: str) -> RequestError:
    """The error for text that jiter refused with `message`."""
    at = _AT.fullmatch(message)
    what, line, column = (at[1], int(at[2]), int(at[3])) if at else (message, 1, 1)
    if "recursion limit" in what:
        return _too_deep(())
    if what.startswith("Detected duplicate key "):
        key = what.removeprefix("Detected duplicate key ")
        shown = key if len(key) <= _MAX_SHOWN else key[:_MAX_SHOWN] + "…"
        return RequestError.at(
            (_offset(data, line, column),),
            f"Invalid JSON: the key {shown} is repeated within one object"
            f" (line {line}, column {column}); every key may appear once.",
            type="duplicate_key",
        )
    what, offset = _explain(data, what, _offset(data, line, column))
    return RequestError.at(
        (offset,),
        f"Invalid JSON: {what} (line {line}, column {column}).",
        type="json_invalid",
        error=what,
    )


def _explain(data: bytes, what: str, offset: int) -> tuple[str, int]:
    """A plain sentence for the fault, and the byte offset where it is."""
    if not data.strip():
        return "the body is empty", 0
    if data.startswith(b"\xef\xbb\xbf"):
        return "the text starts with a byte order mark; send UTF-8 without one", 0
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return "the text is not valid UTF-8", error.start
    token = data[max(0, offset - 1) : offset + 9]
    if re.match(rb"(?s).?-?(NaN|Inf)", token):
        return "NaN and Infinity are not JSON numbers", offset
    for prefix, plain in _PLAINER:
        if what.startswith(prefix):
            return plain, offset
    return what[:_MAX_SHOWN], offset


def _offset(data: bytes, line: int, column: int) -> int:
    """Byte offset of a 1-based line and column, within the text."""
    # The shortest prefix with all earlier line ends, by bisection: a body may be all line ends.
    start, end = 0, len(data)
    while start < end:
        middle = (start + end) // 2
        if data.count(b"\n", 0, middle) < line - 1:
            start = middle + 1
        else:
            end = middle
    return min(start + max(column - 1, 0), len(data))


def _too_deep(loc: tuple[str | int, ...]) -> RequestError:
    return RequestError.at(
        loc,
        f"Invalid JSON: more than {MAX_DEPTH} objects and arrays are nested"
        " (the body's own object counts as the first).",
        type="nesting_too_deep",
        max_depth=MAX_DEPTH,
    )
