"""Items and parts of `input`, and what state they become."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from systone.errors import Fault, RequestError
from systone.protocol import decisions
from systone.protocol.types import Request

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
URL = "data:image/png;base64," + base64.b64encode(PNG).decode()
QUESTIONS = [{"type": "predicate", "instructions": "?"}]


def read(given: Any, questions: Any = QUESTIONS) -> Request:
    data = json.dumps({"input": given, "questions": questions}).encode()
    return decisions.parse(data, dialect="default")[0]


def faults(given: Any, questions: Any = QUESTIONS) -> tuple[Fault, ...]:
    with pytest.raises(RequestError) as caught:
        read(given, questions)
    return caught.value.faults


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def text(value: Any) -> dict[str, Any]:
    return {"type": "input_text", "text": value}


def test_a_string_stays_a_string() -> None:
    assert read("  as sent\n").state == "  as sent\n"
    assert read("").state == ""


def test_items_keep_their_order_roles_and_json() -> None:
    given = [
        {"role": "system", "content": "Be strict."},
        {"type": "message", "role": "developer", "content": [text("Rules.")]},
        user(text("Look:"), {"type": "input_json", "data": {"z": 1, "a": [None]}}),
        {"role": "assistant", "content": "Hm.", "phase": "commentary"},
        {
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "No."},
                {"type": "refusal", "refusal": "I can't."},
            ],
        },
        {
            "type": "function_call",
            "name": "get",
            "call_id": "c1",
            "arguments": '{"a":1}',
            "id": "x",
        },
        {"type": "function_call_output", "call_id": "c1", "output": "42", "status": "completed"},
        {"type": "custom_tool_call", "name": "sh", "call_id": "c2", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [text("a"), text("b")]},
    ]
    state = read(given).state
    assert state == [
        {"role": "system", "content": "Be strict."},
        {"role": "developer", "content": "Rules."},
        {"role": "user", "content": ["Look:", {"z": 1, "a": [None]}]},
        {"role": "assistant", "content": "Hm."},
        {"role": "assistant", "content": ["No.", {"refusal": "I can't."}]},
        {"role": "assistant", "tool": "get", "call_id": "c1", "arguments": '{"a":1}'},
        {"role": "tool", "call_id": "c1", "output": "42"},
        {"role": "assistant", "tool": "sh", "call_id": "c2", "input": "ls"},
        {"role": "tool", "call_id": "c2", "output": ["a", "b"]},
    ]
    assert list(state[2]["content"][1]) == ["z", "a"]


def test_cache_marks_and_detail_are_ignored() -> None:
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    part = {"type": "input_image", "image_url": URL, "detail": "low", **mark}
    assert (
        read([user({**text("x"), **mark}, part)]).state
        == read([user(text("x"), {"type": "input_image", "image_url": URL})]).state
    )


def test_an_image_becomes_an_asset_that_the_state_mentions() -> None:
    request = read([user(text("See"), {"type": "input_image", "image_url": URL})])
    ((placeholder, asset),) = request.assets.items()
    assert (asset.data, asset.format) == (PNG, "png")
    assert request.state == [{"role": "user", "content": ["See", placeholder]}]


def test_equal_images_share_an_asset_and_instructions_may_hold_one() -> None:
    image = {"type": "input_image", "image_url": URL}
    questions = [{"type": "predicate", "instructions": [text("Is this it?"), image]}]
    request = read([user(image)], questions)
    assert len(request.assets) == 1
    (placeholder,) = request.assets
    assert request.questions["0"].instructions == ["Is this it?", placeholder]


def test_instructions_of_one_text_part_are_that_text() -> None:
    assert (
        read("x", [{"type": "predicate", "instructions": [text("Is it?")]}])
        .questions["0"]
        .instructions
        == "Is it?"
    )


@pytest.mark.parametrize("data", [{}, {"a": 1}, [], [{"a": 1}, {}]])
def test_json_parts_are_objects_or_arrays_of_objects(data: Any) -> None:
    assert read([user({"type": "input_json", "data": data})]).state == [
        {"role": "user", "content": [data]}
    ]


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize("data", [nested(32), {"a": [0] * 9998}, {"a": "x" * 262_136}])
def test_json_parts_up_to_the_bounds_pass(data: Any) -> None:
    assert read([user({"type": "input_json", "data": data})]).state


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (nested(33), "32 containers"),
        ({"a": [0] * 9999}, "10000 values"),
        ({"a": "x" * 262_137}, "262144 bytes"),
        ("text", "object or an array of objects"),
        (3, "object or an array of objects"),
        ([1], "object or an array of objects"),
        (None, "object or an array of objects"),
    ],
)
def test_json_parts_beyond_the_bounds_are_refused(data: Any, words: str) -> None:
    (fault,) = faults([user({"type": "input_json", "data": data})])
    assert words in fault.msg
    assert fault.loc == ("input", 0, "content", 0, "data")


@pytest.mark.parametrize(
    ("part", "field", "words"),
    [
        ({"image_url": "https://example.org/a.png"}, "image_url", "fetches no URLs"),
        ({"image_url": "http://example.org/a.png"}, "image_url", "fetches no URLs"),
        ({"image_url": "file:///etc/passwd"}, "image_url", "fetches no URLs"),
        ({"image_url": "data:image/png,raw"}, "image_url", "fetches no URLs"),
        ({"image_url": "data:image/png;base64,?!"}, "image_url", "base64"),
        ({"image_url": "data:image/png;base64,é"}, "image_url", "base64"),
        ({"image_url": "data:image/gif;base64,R0lGODlh"}, "image_url", "neither PNG nor JPEG"),
        ({"image_url": 3}, "image_url", "valid string"),
        ({}, "image_url", "required"),
        ({"file_id": "f"}, "file_id", "file ids"),
    ],
)
def test_other_images_are_refused(part: Any, field: str, words: str) -> None:
    (fault,) = faults([user({"type": "input_image", **part})])
    assert fault.loc == ("input", 0, "content", 0, field)
    assert words in fault.msg


@pytest.mark.parametrize(
    ("given", "loc", "words"),
    [
        (3, ("input",), "string or an array"),
        ({}, ("input",), "string or an array"),
        (None, ("input",), "string or an array"),
        ([], ("input",), "at least one item"),
        (["x"], ("input", 0), "valid dictionary"),
        ([{}], ("input", 0, "role"), "user, developer, system, assistant"),
        ([{"role": "tool", "content": "x"}], ("input", 0, "role"), "'tool'"),
        ([{"role": ["user"], "content": "x"}], ("input", 0, "role"), "unknown"),
        ([{"role": "user"}], ("input", 0, "content"), "required"),
        ([{"role": "user", "content": 3}], ("input", 0, "content"), "string or an array"),
        ([user()], ("input", 0, "content"), "at least one part"),
        ([user("x")], ("input", 0, "content", 0), "valid dictionary"),
        ([user({"type": "image_url"})], ("input", 0, "content", 0, "type"), "input_text"),
        ([user({"type": {}})], ("input", 0, "content", 0, "type"), "input_text"),
        ([user({"type": "output_text", "text": "x"})], ("input", 0, "content", 0, "type"), "not"),
        ([user(text(3))], ("input", 0, "content", 0, "text"), "valid string"),
        ([user({"type": "input_text"})], ("input", 0, "content", 0, "text"), "required"),
        ([user({"type": "input_json"})], ("input", 0, "content", 0, "data"), "required"),
        (
            [{"role": "system", "content": [{"type": "input_image", "image_url": URL}]}],
            ("input", 0, "content", 0, "type"),
            "not accepted here",
        ),
        ([{"type": "reasoning"}], ("input", 0, "type"), "function_call"),
        ([{"type": None}], ("input", 0, "type"), "function_call"),
        (
            [{"type": "function_call", "name": "f", "call_id": "c"}],
            ("input", 0, "arguments"),
            "required",
        ),
        (
            [{"type": "function_call_output", "call_id": "c", "output": "x"}],
            ("input", 0, "call_id"),
            "No earlier function_call",
        ),
        ([{"type": "function_call_output", "output": "x"}], ("input", 0, "call_id"), "required"),
        (
            [
                {"type": "custom_tool_call", "name": "f", "call_id": "c", "input": ""},
                {"type": "function_call_output", "call_id": "c", "output": "x"},
            ],
            ("input", 1, "call_id"),
            "No earlier function_call",
        ),
        (
            [
                {"type": "custom_tool_call", "name": "f", "call_id": "c", "input": ""},
                {"type": "custom_tool_call_output", "call_id": "c"},
            ],
            ("input", 1, "output"),
            "required",
        ),
    ],
)
def test_faults_of_items(given: Any, loc: Any, words: str) -> None:
    (fault,) = faults(given)
    assert fault.loc == loc
    assert words in fault.msg
