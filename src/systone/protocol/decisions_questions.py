"""The `questions` of `/v1/decisions`: positional, typed, and mapped onto System One questions.

predicate -> noul, choice -> choice, score -> score. Choice values are typed (`true` and `"true"`
differ): each gets an option name of its own, and `Asked` keeps the way back. Ids are positions,
since names may be absent or repeated; ids never reach a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from systone.protocol.decisions_parts import Reading, read_content, string_field
from systone.protocol.faults import (
    MAX_FAULTS,
    Loc,
    missing,
    not_a_dict,
    not_a_list,
    not_a_string,
    shown,
    unknown_fields,
    wrong_count,
)
from systone.protocol.rules import WireLimits
from systone.protocol.types import Choice, Json, Noul, Question, Score, Text

__all__ = ["MAX_QUESTIONS", "Asked", "is_sglang", "read_questions"]

MAX_QUESTIONS = 400
_MIN_ITEMS = 2
_PARTS = ("input_text", "input_image", "input_json")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a reply needs of one question: its name, and its values or labels in order.

    `options`: option name -> the value as sent, for a choice; `labels`: for a score."""

    name: str | None
    options: dict[str, str | bool]
    labels: tuple[str, ...] = ()


def read_questions(
    raw: Json, limits: WireLimits, reading: Reading
) -> tuple[dict[str, Question], tuple[Asked, ...]]:
    """Questions by position ("0", "1", ...) and what their answers are rendered with."""
    loc: Loc = ("questions",)
    if type(raw) is not list:
        reading.faults.append(not_a_list(loc, raw))
        return {}, ()
    if not raw:
        reading.faults.append(wrong_count(loc, raw, minimum=1))
    if len(raw) > MAX_QUESTIONS:
        reading.faults.append(wrong_count(loc, raw, maximum=MAX_QUESTIONS))
        return {}, ()
    questions: dict[str, Question] = {}
    asked: list[Asked] = []
    for index, body in enumerate(raw):
        if len(reading.faults) > MAX_FAULTS:
            break
        found = _read_question(body, (*loc, index), limits, reading)
        if found is not None:
            questions[str(index)] = found[0]
            asked.append(found[1])
    return questions, tuple(asked)


def is_sglang(questions: Json) -> bool:
    """Whether these are questions of SGLang's own contract: an array with `id` and `question`."""
    return type(questions) is list and any(
        type(q) is dict
        and "instructions" not in q
        and ("question" in q or q.get("type") == "yes_no")
        for q in questions
    )


def _read_question(
    body: Json, loc: Loc, limits: WireLimits, reading: Reading
) -> tuple[Question, Asked] | None:
    if type(body) is not dict:
        reading.faults.append(not_a_dict(loc, body))
        return None
    kind = body.get("type")
    if type(kind) is not str or kind not in _FIELDS:
        msg = f"Question type {shown(kind)!r} is unknown; known: {', '.join(_FIELDS)}"
        reading.refuse((*loc, "type"), msg, "invalid_question_type")
        return None
    _check_fields(body, _FIELDS[kind], loc, reading)
    name = body.get("name")
    if "name" in body and type(name) is not str and name is not None:
        reading.faults.append(not_a_string((*loc, "name"), name))
    instructions: Text = ""
    if "instructions" not in body:
        reading.faults.append(missing((*loc, "instructions")))
    else:
        content = body["instructions"]
        instructions = read_content(content, _PARTS, (*loc, "instructions"), reading)
    if kind == "predicate":
        if body.get("instructions") == "":
            msg = "A predicate's instructions must not be empty"
            reading.refuse((*loc, "instructions"), msg, "too_short")
        return Noul(instructions), Asked(name, {})
    if kind == "choice":
        options, values = _choices(body, loc, limits.max_options, reading)
        return Choice(instructions, options), Asked(name, values)
    levels, labels = _levels(body, loc, limits.max_levels, reading)
    return Score(instructions, levels), Asked(name, {}, labels)


_FIELDS = {
    "predicate": ("type", "name", "instructions"),
    "choice": ("type", "name", "instructions", "choices"),
    "score": ("type", "name", "instructions", "levels"),
}


def _check_fields(body: dict[str, Any], known: tuple[str, ...], loc: Loc, reading: Reading) -> None:
    if reading.strict:
        reading.faults += unknown_fields(loc, body, known)


def _choices(
    body: dict[str, Any], loc: Loc, maximum: int, reading: Reading
) -> tuple[dict[str, Text | None], dict[str, str | bool]]:
    """Option descriptions by option name, and the values those names stand for."""
    items = _items(body, "choices", maximum, loc, reading)
    strings = {v for item in items if type(item) is dict and type(v := item.get("value")) is str}
    options: dict[str, Text | None] = {}
    values: dict[str, str | bool] = {}
    for index, item in enumerate(items):
        at = (*loc, "choices", index)
        if type(item) is not dict:
            reading.faults.append(not_a_dict(at, item))
            continue
        value = item.get("value")
        if type(value) is not str and type(value) is not bool:
            reading.refuse((*at, "value"), "`value` must be a string or a boolean", "value_type")
            continue
        name = value if type(value) is str else _name_of(value, strings)
        if name in values:
            msg = f"The value {shown(value)!r} is given twice; values must be distinct"
            reading.refuse((*at, "value"), msg, "duplicate_value")
        options[name] = _description(item, at, reading)
        values[name] = value
    return options, values


def _name_of(value: object, taken: set[str]) -> str:
    """The option name of a boolean: its JSON text, told apart from equal strings."""
    name = "true" if value else "false"
    if name in taken:
        name += " (boolean)"
    while name in taken:
        name += "'"
    return name


def _levels(
    body: dict[str, Any], loc: Loc, maximum: int, reading: Reading
) -> tuple[list[Text], tuple[str, ...]]:
    """Level texts ("label" or "label: description"), and the labels."""
    levels: list[Text] = []
    labels: list[str] = []
    for index, item in enumerate(_items(body, "levels", maximum, loc, reading)):
        at = (*loc, "levels", index)
        if type(item) is not dict:
            reading.faults.append(not_a_dict(at, item))
            continue
        label = string_field(item, "label", at, reading)
        description = _description(item, at, reading)
        levels.append(f"{label}: {description}" if description else label)
        labels.append(label)
    return levels, tuple(labels)


def _items(body: dict[str, Any], field: str, maximum: int, loc: Loc, reading: Reading) -> list[Any]:
    """The entries of `choices` or `levels`; none after a fault of the list itself."""
    loc = (*loc, field)
    if field not in body:
        reading.faults.append(missing(loc))
        return []
    items = body[field]
    if type(items) is not list:
        reading.faults.append(not_a_list(loc, items))
        return []
    if len(items) > maximum:
        reading.faults.append(wrong_count(loc, items, maximum=maximum))
        return []
    if len(items) < _MIN_ITEMS:
        reading.faults.append(wrong_count(loc, items, minimum=_MIN_ITEMS))
    return items


def _description(item: dict[str, Any], loc: Loc, reading: Reading) -> str | None:
    """A description; an empty one, as clients send by default, is none."""
    description = item.get("description")
    if description is not None and type(description) is not str:
        reading.faults.append(not_a_string((*loc, "description"), description))
        return None
    return description or None
