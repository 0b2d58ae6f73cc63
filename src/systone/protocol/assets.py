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
from systone.protocol.faults import Loc, missing, shown
from systone.protocol.rules import WireRules
from systone.protocol.shapes import ASSET, check
from systone.protocol.types import Asset, Json

__all__ = ["image_format", "read_assets", "unmentioned"]

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"


def image_format(data: bytes) -> Literal["png", "jpeg"] | None:
    """The format the bytes themselves declare; None when it is neither PNG nor JPEG."""
    if data.startswith(_PNG):
        return "png"
    return "jpeg" if data.startswith(_JPEG) else None


def read_assets(
    raw: Mapping[str, Any], parts: Mapping[str, bytes], rules: WireRules, faults: list[Fault]
) -> dict[str, Asset]:
    """Assets by placeholder; appends every fault, parts claimed twice or never included."""
    assets: dict[str, Asset] = {}
    claimed: set[str] = set()
    for name, body in raw.items():
        loc: Loc = ("assets", name)
        found = check(ASSET, body, loc, rules)
        if not name:
            found.append(_fault(loc, "An asset's placeholder must not be empty."))
        if type(body) is dict and not {f.loc[-1] for f in found} & {"part", "data_base64"}:
            data = _bytes_of(loc, body, parts, claimed, found)
            form = image_format(data or b"")
            if data is not None and form is None:
                msg = f"The asset {shown(name)!r} is neither a PNG nor a JPEG image."
                found.append(_fault(loc, msg))
            if data and form and not found:
                assets[name] = Asset(data, form)
        faults += found
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


def _bytes_of(
    loc: Loc,
    body: dict[str, Any],
    parts: Mapping[str, bytes],
    claimed: set[str],
    faults: list[Fault],
) -> bytes | None:
    """An asset's bytes: those of its part, else its base64 text."""
    part, text = body.get("part"), body.get("data_base64")
    if part is not None:
        if part in parts and part not in claimed:
            claimed.add(part)
            return parts[part]
        msg = (
            f"The part {shown(part)!r} is used by more than one asset."
            if part in parts
            else f"The body has no multipart part named {shown(part)!r}."
        )
        faults.append(_fault((*loc, "part"), msg))
    elif text is None:
        faults.append(missing((*loc, "data_base64")))
    else:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            msg = "data_base64 must be plain base64 text, without a data: prefix."
            faults.append(_fault((*loc, "data_base64"), msg))
    return None


def _fault(loc: Loc, msg: str) -> Fault:
    return Fault(loc, "asset_error", msg, exact="api_usage_error")


def _strings(value: Json) -> Iterator[str]:
    """Every string value inside; the parser bounds the nesting."""
    if type(value) is str:
        yield value
    elif type(value) in (dict, list):
        for child in value.values() if type(value) is dict else value:  # type: ignore[union-attr]
            yield from _strings(child)
