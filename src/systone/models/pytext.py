"""Text slots as text: strings verbatim, objects and arrays as CPython's `json.dumps` writes them.

Owns the exact spelling a model's contract asks for (float `repr`, separators `", "` and `": "`,
non-ASCII raw, keys in the caller's order or sorted by code point at every depth). Knows no model.
"""

from __future__ import annotations

import json
import math

from systone.errors import RequestError
from systone.protocol.types import Json, Text

__all__ = ["float_text", "json_text", "round4", "text_of"]


def json_text(value: Json, *, sort_keys: bool = False) -> str:
    """`json.dumps(value, ensure_ascii=False, sort_keys=sort_keys, allow_nan=False)`.

    Raises ValueError for NaN and infinities and TypeError for what JSON can't hold.
    """
    return json.dumps(value, ensure_ascii=False, sort_keys=sort_keys, allow_nan=False)


def text_of(value: Text, loc: tuple[str | int, ...], *, sort_keys: bool = False) -> str:
    """The text a model reads for one slot: a string as it is, anything else as `json_text`.

    Raises RequestError at `loc` for what has no exact text: a non-finite number, a value outside
    JSON, nesting beyond the interpreter's stack, or a lone surrogate.
    """
    text = value if isinstance(value, str) else _rendered(value, loc, sort_keys=sort_keys)
    # A surrogate makes a string unencodable; `isascii` is a flag check, so plain text pays nothing.
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RequestError.at(
                loc,
                f"text holds a lone surrogate at character {error.start}",
                type="string_unicode",
            ) from None
    return text


def float_text(value: float) -> str:
    """A finite float as CPython prints it: the shortest digits that read back to the same value.

    Raises ValueError for NaN and infinities.
    """
    if not math.isfinite(value):
        raise ValueError(f"no JSON text for {value}")
    return float.__repr__(value)


def round4(value: float) -> float:
    """`round(value, 4)`: correctly rounded from the exact binary value, exact halves to even."""
    return round(value, 4)


def _rendered(value: Json, loc: tuple[str | int, ...], *, sort_keys: bool) -> str:
    try:
        return json_text(value, sort_keys=sort_keys)
    except (ValueError, TypeError) as error:
        raise RequestError.at(loc, f"not a JSON value: {error}", type="json_type") from None
    except RecursionError:
        raise RequestError.at(loc, "nested too deeply to be read", type="recursion_limit") from None
