"""The `input` of `/v1/decisions` as a state.

A string stays that string. Items become an array of objects in the order given, roles kept, tool
traffic included, because a decision may hang on who said what:

    message              {"role": R, "content": text or array of parts}
    function_call        {"role": "assistant", "tool": NAME, "call_id": ID, "arguments": TEXT}
    custom_tool_call     {"role": "assistant", "tool": NAME, "call_id": ID, "input": TEXT}
    either one's output  {"role": "tool", "call_id": ID, "output": text or array of parts}

Texts are strings and JSON parts keep their JSON (`decisions_parts`). `arguments` stays the text
the caller sent. `id`, `status` and `phase` say nothing about content and are dropped.
"""

from __future__ import annotations

from typing import Any

from systone.protocol.decisions_parts import Reading, read_content, string_field
from systone.protocol.faults import MAX_FAULTS, Loc, missing, not_a_dict, shown
from systone.protocol.types import Json, Text

__all__ = ["read_input"]

_PARTS_OF_ROLE = {
    "user": ("input_text", "input_image", "input_json"),
    "developer": ("input_text",),
    "system": ("input_text",),
    "assistant": ("output_text", "refusal"),
}
_OUTPUT_PARTS = ("input_text", "input_image")
_ITEM_TYPES = (
    "message",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
)


def read_input(raw: Json, reading: Reading) -> Text:
    """The state; appends every fault of `input` to the reading."""
    loc: Loc = ("input",)
    if type(raw) is str:
        return raw
    if type(raw) is not list:
        reading.refuse(loc, "`input` must be a string or an array of items", "input_type")
        return ""
    if not raw:
        reading.refuse(loc, "`input` must hold at least one item", "too_short")
    calls: set[tuple[str, str]] = set()
    state: list[Json] = []
    for i, item in enumerate(raw):
        if len(reading.faults) > MAX_FAULTS:
            break
        state.append(_read_item(item, (*loc, i), calls, reading))
    return state


def _read_item(item: Json, loc: Loc, calls: set[tuple[str, str]], reading: Reading) -> Json:
    if type(item) is not dict:
        reading.faults.append(not_a_dict(loc, item))
        return None
    kind = item.get("type", "message")
    if type(kind) is not str or kind not in _ITEM_TYPES:
        msg = f"Item type {shown(kind)!r} is unknown; known: {', '.join(_ITEM_TYPES)}"
        reading.refuse((*loc, "type"), msg, "invalid_item")
        return None
    if kind == "message":
        return _message(item, loc, reading)
    if kind.endswith("_output"):
        return _output(item, kind.removesuffix("_output"), loc, calls, reading)
    return _call(item, kind, loc, calls, reading)


def _message(item: dict[str, Any], loc: Loc, reading: Reading) -> Json:
    role = item.get("role")
    if type(role) is not str or role not in _PARTS_OF_ROLE:
        msg = f"Role {shown(role)!r} is unknown; known: {', '.join(_PARTS_OF_ROLE)}"
        reading.refuse((*loc, "role"), msg, "invalid_role")
        return None
    if "content" not in item:
        reading.faults.append(missing((*loc, "content")))
        return None
    content = read_content(item["content"], _PARTS_OF_ROLE[role], (*loc, "content"), reading)
    return {"role": role, "content": content}


def _call(
    item: dict[str, Any], kind: str, loc: Loc, calls: set[tuple[str, str]], reading: Reading
) -> Json:
    name = string_field(item, "name", loc, reading)
    call_id = string_field(item, "call_id", loc, reading)
    field = "arguments" if kind == "function_call" else "input"
    calls.add((kind, call_id))
    return {
        "role": "assistant",
        "tool": name,
        "call_id": call_id,
        field: string_field(item, field, loc, reading),
    }


def _output(
    item: dict[str, Any], kind: str, loc: Loc, calls: set[tuple[str, str]], reading: Reading
) -> Json:
    before = len(reading.faults)
    call_id = string_field(item, "call_id", loc, reading)
    if len(reading.faults) == before and (kind, call_id) not in calls:
        msg = f"No earlier {kind} has the call_id {shown(call_id)!r}"
        reading.refuse((*loc, "call_id"), msg, "unmatched_call")
    if "output" not in item:
        reading.faults.append(missing((*loc, "output")))
        return None
    output = read_content(item["output"], _OUTPUT_PARTS, (*loc, "output"), reading)
    return {"role": "tool", "call_id": call_id, "output": output}
