"""Content parts of `/v1/decisions`: text, JSON and images, shared by `input` and `instructions`.

A list of parts becomes one string when it is a single text, else an array in which texts are
strings, JSON parts keep their value, and an image is its placeholder string with the bytes in
`assets`. Cache marks and `detail` are accepted and ignored. Fetches nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from systone.errors import Fault
from systone.protocol import jsontext
from systone.protocol.assets import image_format
from systone.protocol.faults import MAX_FAULTS, Loc, missing, not_a_dict, not_a_string, shown
from systone.protocol.types import Asset, Json, Text

__all__ = ["Reading", "read_content", "string_field"]

MAX_JSON_DEPTH = 32
MAX_JSON_VALUES = 10_000
MAX_JSON_BYTES = 256 * 1024

_DATA_URL = re.compile(r"data:[^,;]*;base64,", re.IGNORECASE)


@dataclass(slots=True)
class Reading:
    """What gathers while one body is read: its faults, and its images by placeholder."""

    strict: bool = False
    faults: list[Fault] = field(default_factory=list)
    assets: dict[str, Asset] = field(default_factory=dict)

    def refuse(self, loc: Loc, msg: str, type: str = "value_error") -> None:
        self.faults.append(Fault(loc, type, msg))


def string_field(body: dict[str, Any], name: str, loc: Loc, reading: Reading) -> str:
    """A required string of an object; "" after a fault."""
    if name not in body:
        reading.faults.append(missing((*loc, name)))
    elif type(body[name]) is not str:
        reading.faults.append(not_a_string((*loc, name), body[name]))
    else:
        text: str = body[name]
        return text
    return ""


def read_content(content: Json, allowed: tuple[str, ...], loc: Loc, reading: Reading) -> Text:
    """A string, or parts of the `allowed` types, as one text value."""
    if type(content) is str:
        return content
    if type(content) is not list:
        reading.refuse(loc, f"`{loc[-1]}` must be a string or an array of parts", "content_type")
        return ""
    if not content:
        reading.refuse(loc, f"`{loc[-1]}` must hold at least one part", "too_short")
    values = []
    for i, part in enumerate(content):
        if len(reading.faults) > MAX_FAULTS:
            break
        values.append(_read_part(part, allowed, (*loc, i), reading))
    return values[0] if len(values) == 1 and type(values[0]) is str else values


def _read_part(part: Json, allowed: tuple[str, ...], loc: Loc, reading: Reading) -> Json:
    if type(part) is not dict:
        reading.faults.append(not_a_dict(loc, part))
        return None
    kind = part.get("type")
    if type(kind) is not str or kind not in allowed:
        known = ", ".join(allowed)
        msg = f"Part type {shown(kind)!r} is not accepted here; accepted: {known}"
        reading.refuse((*loc, "type"), msg, "invalid_part")
        return None
    return _READERS[kind](part, loc, reading)


def _text(part: dict[str, Any], loc: Loc, reading: Reading) -> Json:
    return string_field(part, "text", loc, reading)


def _refusal(part: dict[str, Any], loc: Loc, reading: Reading) -> Json:
    return {"refusal": string_field(part, "refusal", loc, reading)}


def _json(part: dict[str, Any], loc: Loc, reading: Reading) -> Json:
    """An `input_json` part's `data`: an object or an array of objects, within OpenAI's bounds."""
    loc = (*loc, "data")
    if "data" not in part:
        reading.faults.append(missing(loc))
        return None
    value: Json = part["data"]
    items = value if type(value) is list else [value]
    if not all(type(item) is dict for item in items):
        reading.refuse(loc, "`data` must be an object or an array of objects", "json_type")
        return None
    num_values, depth = _extent(value)
    if depth > MAX_JSON_DEPTH:
        reading.refuse(loc, f"`data` nests more than {MAX_JSON_DEPTH} containers", "json_too_large")
    elif num_values > MAX_JSON_VALUES:
        reading.refuse(loc, f"`data` holds more than {MAX_JSON_VALUES} values", "json_too_large")
    elif len(jsontext.dumps(value)) > MAX_JSON_BYTES:
        reading.refuse(loc, f"`data` is larger than {MAX_JSON_BYTES} bytes", "json_too_large")
    return value


def _extent(value: Json) -> tuple[int, int]:
    """Number of values, containers included, and the nesting of containers."""
    num_values, depth = 0, 0
    level: list[Json] = [value]
    while level:
        num_values += len(level)
        containers = [v for v in level if type(v) is dict or type(v) is list]
        depth += bool(containers)
        level = []
        for container in containers:
            level += container.values() if isinstance(container, dict) else container
    return num_values, depth


def _image(part: dict[str, Any], loc: Loc, reading: Reading) -> Json:
    """The placeholder of an image given as a data URL; equal images share one."""
    if part.get("file_id") is not None:
        msg = "file ids are not supported; send the image as a data: URL in `image_url`"
        reading.refuse((*loc, "file_id"), msg, "unsupported_image")
        return None
    url = string_field(part, "image_url", loc, reading)
    if not url:
        return None
    loc = (*loc, "image_url")
    head = _DATA_URL.match(url[:200])
    if head is None:
        msg = "this server fetches no URLs; send the image as data:image/png;base64,... or jpeg"
        reading.refuse(loc, msg, "unsupported_image")
        return None
    try:
        data = base64.b64decode(url[head.end() :], validate=True)
    except (binascii.Error, ValueError):
        reading.refuse(loc, "the data: URL holds no valid base64 text", "invalid_image")
        return None
    found = image_format(data)
    if found is None:
        reading.refuse(loc, "the image is neither PNG nor JPEG", "invalid_image")
        return None
    placeholder = f"<image:{hashlib.sha256(data).hexdigest()[:32]}>"
    reading.assets[placeholder] = Asset(data, found)
    return placeholder


_READERS: dict[str, Callable[[dict[str, Any], Loc, Reading], Json]] = {
    "input_text": _text,
    "output_text": _text,
    "text": _text,
    "refusal": _refusal,
    "input_json": _json,
    "input_image": _image,
}
