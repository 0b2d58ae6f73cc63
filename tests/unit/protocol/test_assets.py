"""Section 1.4: images as base64 or parts; who claims what; the format from the bytes."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from systone.protocol.assets import image_format
from systone.protocol.types import Asset

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
JPEG = b"\xff\xd8\xff\xe0" + b"\0" * 20


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def body(assets: Any, state: Any = "See IMG.", **question: Any) -> dict[str, Any]:
    fields = {"type": "noul", "instructions": "?", **question}
    return {"state": state, "questions": {"q": fields}, "assets": assets}


@pytest.mark.parametrize(("data", "kind"), [(PNG, "png"), (JPEG, "jpeg")])
@pytest.mark.parametrize("said", [None, "png", "jpg", "jpeg"])
def test_the_bytes_decide_the_format(parse: Any, data: bytes, kind: str, said: Any) -> None:
    asset = {"type": "image", "format": said, "data_base64": b64(data)}
    assert parse(body({"IMG": asset})).assets == {"IMG": Asset(data, kind)}


def test_type_and_format_are_optional(parse: Any) -> None:
    assert parse(body({"IMG": {"data_base64": b64(PNG)}})).assets["IMG"].format == "png"


def test_parts_are_claimed_by_name_and_win_over_base64(parse: Any) -> None:
    assets = {
        "IMG": {"type": "image", "part": "asset-0", "data_base64": "ignored"},
        "<image:0>": {"part": "asset-1"},
    }
    request = parse(
        body(assets, state=["IMG", {"x": "and <image:0>."}]),
        parts={"asset-0": PNG, "asset-1": JPEG},
    )
    assert request.assets == {"IMG": Asset(PNG, "png"), "<image:0>": Asset(JPEG, "jpeg")}


@pytest.mark.parametrize(
    "place",
    [
        {"state": {"deep": [["IMG"]]}},
        {"instructions": "Is IMG a crate?"},
        {"criteria": {"true": {"like": "IMG"}}},
        {"type": "choice", "criteria": {"a": "IMG", "b": None}},
        {"type": "score", "criteria": ["none", ["IMG"]]},
    ],
)
def test_any_text_of_the_request_may_mention_an_asset(parse: Any, place: dict[str, Any]) -> None:
    state = place.pop("state", "s")
    assert parse(body({"IMG": {"data_base64": b64(PNG)}}, state, **place)).assets


def test_a_question_that_cannot_be_read_may_mention_an_asset(faults: Any) -> None:
    asset = {"IMG": {"data_base64": b64(PNG)}}
    for questions in ({"q": {"type": "noul", "instructions": "IMG", "criteria": 3}}, 3, {}):
        found = faults({"state": "s", "questions": questions, "assets": asset})
        assert {fault.loc[0] for fault in found} == {"questions"}


@pytest.mark.parametrize(
    ("assets", "loc", "words"),
    [
        ([], ("assets",), "valid dictionary"),
        ({}, ("assets",), "at least 1 item"),
        ({"IMG": 3}, ("assets", "IMG"), "valid dictionary"),
        ({"IMG": {}}, ("assets", "IMG", "data_base64"), "required"),
        ({"IMG": {"data_base64": 3}}, ("assets", "IMG", "data_base64"), "valid string"),
        ({"IMG": {"data_base64": "?!"}}, ("assets", "IMG", "data_base64"), "base64"),
        ({"IMG": {"data_base64": "é"}}, ("assets", "IMG", "data_base64"), "base64"),
        (
            {"IMG": {"data_base64": "data:image/png;base64," + b64(PNG)}},
            ("assets", "IMG", "data_base64"),
            "without a data: prefix",
        ),
        ({"IMG": {"data_base64": b64(b"GIF89a")}}, ("assets", "IMG"), "neither a PNG nor a JPEG"),
        ({"IMG": {"data_base64": ""}}, ("assets", "IMG"), "neither a PNG nor a JPEG"),
        (
            {"IMG": {"type": "video", "data_base64": b64(PNG)}},
            ("assets", "IMG", "type"),
            "'image'",
        ),
        (
            {"IMG": {"format": "gif", "data_base64": b64(PNG)}},
            ("assets", "IMG", "format"),
            "'png', 'jpg' or 'jpeg'",
        ),
        ({"IMG": {"part": "asset-0"}}, ("assets", "IMG", "part"), "no multipart part"),
        ({"IMG": {"part": 0}}, ("assets", "IMG", "part"), "valid string"),
        ({"OTHER": {"data_base64": b64(PNG)}}, ("assets", "OTHER"), "mentions the asset"),
        ({"": {"data_base64": b64(PNG)}}, ("assets", ""), "must not be empty"),
    ],
)
def test_faults_of_assets(faults: Any, assets: Any, loc: Any, words: str) -> None:
    (fault,) = faults(body(assets))
    assert fault.loc == loc
    assert words in fault.msg


def test_a_part_is_claimed_by_exactly_one_asset(faults: Any) -> None:
    twice = {"IMG": {"part": "a"}, "See": {"part": "a"}}
    (fault,) = faults(body(twice), parts={"a": PNG})
    assert "more than one asset" in fault.msg
    (fault,) = faults(body({"IMG": {"part": "a"}}), parts={"a": PNG, "b": PNG})
    assert "'b' is not used" in fault.msg
    without = body({})
    del without["assets"]
    (fault,) = faults(without, parts={"a": PNG})
    assert "'a' is not used" in fault.msg
    assert fault.exact == "api_usage_error"


def test_null_assets_are_no_assets(parse: Any) -> None:
    assert parse(body(None)).assets == {}


def test_the_number_of_assets_is_bounded(faults: Any) -> None:
    (fault,) = faults(body({f"a{i}": 0 for i in range(65)}))
    assert (fault.loc, fault.type) == (("assets",), "too_long")


@pytest.mark.parametrize("data", [b"", b"\x89PNG", b"RIFF", b"\xff\xd8"])
def test_other_bytes_are_no_image(data: bytes) -> None:
    assert image_format(data) is None
