"""JSON values as the indented text a Kev reads, and the escaping of its delimiters.

Source of every rule: the Kev contract, section 2. Knows no tokenizer and no limits.
"""

from __future__ import annotations

import re

from systone.errors import RequestError
from systone.protocol.types import Json

__all__ = ["escape", "render", "text_of"]

_DELIMITER = re.compile(r"<\|([A-Za-z0-9_]+)\|>")
_INDENT = "  "


def render(value: Json, indent: int = 0) -> str:
    """Null is empty, strings stand as they are, numbers and booleans as Python's `str` writes
    them; items and entries are lines, two spaces deeper at each level."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_item(item, indent) for item in value)
    if isinstance(value, dict):
        return "\n".join(_entry(key, item, indent) for key, item in value.items())
    return str(value)


def escape(text: str) -> str:
    """Caller text that can't forge a delimiter: `<|name|>` becomes `<\u00a6name\u00a6>`."""
    return _DELIMITER.sub("<\u00a6\\1\u00a6>", text) if "<|" in text else text


def text_of(value: Json, loc: tuple[str | int, ...]) -> str:
    """`render`, checked. Raises RequestError at `loc` for what has no text: nesting beyond the
    interpreter's stack, an integer Python refuses to print, a lone surrogate."""
    try:
        text = render(value)
    except RecursionError:
        raise RequestError.at(loc, "nested too deeply to be read", type="recursion_limit") from None
    except ValueError as error:
        raise RequestError.at(loc, f"not printable: {error}", type="json_type") from None
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


def _item(item: Json, indent: int) -> str:
    return f"{_INDENT * indent}- {render(item, indent + 1).lstrip()}"


def _entry(key: str, value: Json, indent: int) -> str:
    if isinstance(value, (dict, list)):
        return f"{_INDENT * indent}{key}:\n{render(value, indent + 1)}"
    return f"{_INDENT * indent}{key}: {render(value)}"
