"""The `assets` of a request: images as base64 text or as multipart parts.

Owns who claims which part and what format the bytes declare; decodes no pixels. Whether a model
reads images at all is decided by its adapter, which refuses them when it can't.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from systone.errors import Fault
from systone.protocol.faults import (
    Loc,
    missing,
    not_a_dict,
    not_a_string,
    shown,
    wrong_count,
)
from systone.protocol.types import Asset, Json

__all__ = ["MAX_ASSETS", "image_format", "read_assets", "unmentioned"]

# Far more than any model reads; bounds the search for placeholders in the texts.
MAX_ASSETS = 64
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"


def image_format(data: bytes) -> Literal["png", "jpeg"] | None:
    """The format the bytes themselves declare; None when it is neither PNG nor JPEG."""
    if data.startswith(_PNG):
        return "png"
    return "jpeg" if data.startswith(_JPEG) else None


def read_assets(raw: Json, parts: Mapping[str, bytes], faults: list[Fault]) -> dict[str, Asset]:
    """Assets by placeholder; appends every fault, parts claimed twice or never included."""
    assets: dict[str, Asset] = {}
    claimed: set[str] = set()
    if raw is not None and type(raw) is not dict:
        faults.append(not_a_dict(("assets",), raw))
        return {}
    if type(raw) is dict:
        if not raw:
            faults.append(wrong_count(("assets",), raw, minimum=1))
        if len(raw) > MAX_ASSETS:
            faults.append(wrong_count(("assets",), raw, maximum=MAX_ASSETS))
            return {}
        for name, body in raw.items():
            asset = _read_asset(name, body, parts, claimed, faults)
            if asset is not None:
                assets[name] = asset
    faults += [
        _fault(("assets",), f"The part {shown(part)!r} is not used by any asset.")
        for part in parts
        if part not in claimed
    ]
    return assets


def unmentioned(assets: Mapping[str, Asset], texts: list[Json]) -> list[Fault]:
    """A fault for each placeholder that stands in no string of `texts`."""
    strings = list(_strings(texts))
    return [
        _fault(("assets", name), f"No text of the request mentions the asset {shown(name)!r}.")
        for name in assets
        if not any(name in text for text in strings)
    ]


def _read_asset(
    name: str, body: Json, parts: Mapping[str, bytes], claimed: set[str], faults: list[Fault]
) -> Asset | None:
    loc: Loc = ("assets", name)
    before = len(faults)
    if type(body) is not dict:
        faults.append(not_a_dict(loc, body))
        return None
    if not name:
        faults.append(_fault(loc, "An asset's placeholder must not be empty."))
    _check_literal((*loc, "type"), body.get("type"), ("image",), faults)
    _check_literal((*loc, "format"), body.get("format"), ("png", "jpg", "jpeg"), faults)
    data = _bytes_of(loc, body, parts, claimed, faults)
    if data is None:
        return None
    found = image_format(data)
    if found is None:
        faults.append(_fault(loc, f"The asset {shown(name)!r} is neither a PNG nor a JPEG image."))
    return Asset(data, found) if found and len(faults) == before else None


def _bytes_of(
    loc: Loc,
    body: dict[str, Any],
    parts: Mapping[str, bytes],
    claimed: set[str],
    faults: list[Fault],
) -> bytes | None:
    """An asset's bytes: those of its part, else its base64 text."""
    if body.get("part") is not None:
        return _part_of((*loc, "part"), body["part"], parts, claimed, faults)
    text = body.get("data_base64")
    if text is None:
        faults.append(missing((*loc, "data_base64")))
    elif type(text) is not str:
        faults.append(not_a_string((*loc, "data_base64"), text))
    else:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            faults.append(
                _fault(
                    (*loc, "data_base64"),
                    "data_base64 must be plain base64 text, without a data: prefix.",
                )
            )
    return None


def _part_of(
    loc: Loc, part: Json, parts: Mapping[str, bytes], claimed: set[str], faults: list[Fault]
) -> bytes | None:
    if type(part) is not str:
        faults.append(not_a_string(loc, part))
    elif part not in parts:
        faults.append(_fault(loc, f"The body has no multipart part named {shown(part)!r}."))
    elif part in claimed:
        faults.append(_fault(loc, f"The part {shown(part)!r} is used by more than one asset."))
    else:
        claimed.add(part)
        return parts[part]
    return None


def _check_literal(loc: Loc, value: Json, allowed: tuple[str, ...], faults: list[Fault]) -> None:
    if value is None or (type(value) is str and value in allowed):
        return
    *head, last = [f"'{word}'" for word in allowed]
    expected = f"{', '.join(head)} or {last}" if head else last
    msg = f"Input should be {expected}"
    faults.append(Fault(loc, "literal_error", msg, shown(value), {"expected": expected}))


def _fault(loc: Loc, msg: str) -> Fault:
    return Fault(loc, "asset_error", msg, exact="api_usage_error")


def _strings(value: Json) -> Iterator[str]:
    """Every string value inside; the parser bounds the nesting."""
    if type(value) is str:
        yield value
    elif type(value) in (dict, list):
        for child in value.values() if type(value) is dict else value:  # type: ignore[union-attr]
            yield from _strings(child)
