"""One entry of a System One `questions` object to a typed question, or its faults.

Owns the shapes and counts of noul, choice and score on the wire (contract sections 1.2 and 1.3).
What a model makes of missing instructions or one-sided criteria is its adapter's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from systone.errors import Fault
from systone.protocol.faults import (
    MAX_FAULTS,
    Loc,
    missing,
    not_a_dict,
    not_a_list,
    not_a_text,
    shown,
    unknown_fields,
    wrong_count,
)
from systone.protocol.rules import WireRules
from systone.protocol.types import Choice, Json, Noul, Question, Score

__all__ = ["in_body_order", "read_questions"]

_TEXT = frozenset((str, dict, list))
_TEXT_OR_NULL = _TEXT | {type(None)}
_SIDES = ("true", "false")
_FIELDS = ("type", "instructions", "criteria")


def read_questions(raw: Json, rules: WireRules, faults: list[Fault]) -> dict[str, Question]:
    """The typed questions by id, in body order; appends every fault found to `faults`."""
    loc: Loc = ("questions",)
    if type(raw) is not dict:
        faults.append(not_a_dict(loc, raw))
        return {}
    if not raw:
        faults.append(wrong_count(loc, raw, minimum=1))
    maximum = rules.limits.max_questions
    if maximum is not None and len(raw) > maximum:
        msg = f"Too many questions. Must have at most {maximum} questions."
        faults.append(wrong_count(loc, raw, maximum=maximum, msg=msg, exact="sentence"))
        return {}
    questions: dict[str, Question] = {}
    for qid, body in raw.items():
        before = len(faults)
        question = _read_question(qid, body, rules, faults)
        if question is not None:
            questions[qid] = question
        if len(faults) > before:
            faults[before:] = in_body_order(faults[before:], body, depth=3)
            if len(faults) > MAX_FAULTS:
                break
    return questions


def in_body_order(faults: list[Fault], body: Json, *, depth: int) -> list[Fault]:
    """Faults sorted by where their field, `loc[depth]`, stands in `body`; absent fields last."""
    places = {key: i for i, key in enumerate(body)} if isinstance(body, dict) else {}

    def place(fault: Fault) -> int:
        name = fault.loc[depth] if len(fault.loc) > depth else None
        return places.get(name, len(places)) if isinstance(name, str) else len(places)

    return sorted(faults, key=place)


def _read_question(qid: str, body: Json, rules: WireRules, faults: list[Fault]) -> Question | None:
    if not qid:
        msg = "Question ids must not be empty."
        faults.append(Fault(("questions", ""), "value_error", msg, "", exact="sentence"))
    if type(body) is not dict:
        faults.append(_not_a_question(qid, body))
        return None
    kind = body.get("type")
    reader = _READERS.get(kind) if type(kind) is str else None
    if reader is None or type(kind) is not str:
        faults.append(_unknown_type(qid, body))
        return None
    loc = ("questions", qid, kind)
    if type(body.get("instructions")) not in _TEXT_OR_NULL:
        faults += not_a_text((*loc, "instructions"), body["instructions"])
    if rules.strict:
        faults += unknown_fields(loc, body, _FIELDS)
    return reader(loc, body, rules, faults)


def _noul(loc: Loc, body: dict[str, Any], rules: WireRules, faults: list[Fault]) -> Question:
    instructions, criteria = body.get("instructions"), body.get("criteria")
    if criteria is None:
        sides: Mapping[str, Any] | None = None
    elif type(criteria) is not dict:
        faults.append(not_a_dict((*loc, "criteria"), criteria))
        return Noul()
    else:
        before = len(faults)
        sides = _sides((*loc, "criteria"), criteria, rules, faults)
        if len(faults) > before:
            return Noul()
    if instructions in (None, "") and not any(v not in (None, "") for v in (sides or {}).values()):
        msg = f"Noul question must have criteria or instructions: {shown(loc[1])}"
        faults.append(Fault(loc, "value_error", msg, exact="sentence"))
    return Noul(instructions, sides)


def _sides(
    loc: Loc, criteria: dict[str, Any], rules: WireRules, faults: list[Fault]
) -> Mapping[str, Any]:
    """The described sides of a Noul.

    Keys other than "true" and "false" are ignored, as on the hosted API, except where they are all
    there is: such a Noul would silently lose its descriptions, so only `jev-exact` lets it pass.
    The open-jev dialect hands them on, because its own contract refuses them."""
    for side in _SIDES:
        if type(criteria.get(side)) not in _TEXT_OR_NULL:
            faults += not_a_text((*loc, side), criteria[side])
    stray = [key for key in criteria if key not in _SIDES]
    if not stray or rules.dialect == "open-jev":
        return criteria
    if rules.strict:
        faults += unknown_fields(loc, stray, _SIDES)
    elif len(stray) == len(criteria) and rules.dialect == "default":
        msg = 'Noul criteria describe the sides "true" and "false"; neither is given'
        faults.append(Fault(loc, "value_error", msg, shown(", ".join(stray))))
    return {side: text for side, text in criteria.items() if side in _SIDES}


def _choice(loc: Loc, body: dict[str, Any], rules: WireRules, faults: list[Fault]) -> Question:
    if "criteria" not in body:
        faults.append(missing((*loc, "criteria")))
        return Choice()
    loc, criteria, maximum = (*loc, "criteria"), body["criteria"], rules.limits.max_options
    if type(criteria) is not dict:
        faults.append(not_a_dict(loc, criteria))
        return Choice()
    if not criteria:
        msg = f"Choice question must have at least one choice: {shown(loc[1])}"
        faults.append(wrong_count(loc, criteria, minimum=1, msg=msg, exact="sentence"))
    elif len(criteria) > maximum:
        msg = f"Too many choices. Must have at most {maximum} choices."
        faults.append(wrong_count(loc, criteria, maximum=maximum, msg=msg, exact="sentence"))
    else:
        for name, text in criteria.items():
            if type(text) not in _TEXT_OR_NULL:
                faults += not_a_text((*loc, name), text)
    return Choice(body.get("instructions"), criteria)


def _score(loc: Loc, body: dict[str, Any], rules: WireRules, faults: list[Fault]) -> Question:
    if "criteria" not in body:
        faults.append(missing((*loc, "criteria")))
        return Score()
    loc, criteria, maximum = (*loc, "criteria"), body["criteria"], rules.limits.max_levels
    if type(criteria) is not list:
        faults.append(not_a_list(loc, criteria))
        return Score()
    if not criteria:
        faults.append(wrong_count(loc, criteria, minimum=1))
    elif len(criteria) > maximum:
        msg = f"Too many score levels. Must have at most {maximum} levels."
        faults.append(wrong_count(loc, criteria, maximum=maximum, msg=msg, exact="sentence"))
    else:
        for index, text in enumerate(criteria):
            if type(text) not in _TEXT:
                faults += not_a_text((*loc, index), text)
    return Score(body.get("instructions"), criteria)


_Reader = Callable[[Loc, dict[str, Any], WireRules, list[Fault]], Question]
_READERS: dict[str, _Reader] = {"noul": _noul, "choice": _choice, "score": _score}
_EXPECTED = ", ".join(f"'{kind}'" for kind in _READERS)


def _not_a_question(qid: str, body: Json) -> Fault:
    msg = "Input should be a valid dictionary or object to extract fields from"
    return Fault(("questions", qid), "model_attributes_type", msg, shown(body))


def _unknown_type(qid: str, body: dict[str, Any]) -> Fault:
    loc = ("questions", qid)
    if "type" not in body:
        msg = f"Unable to extract tag using discriminator 'type'; expected one of {_EXPECTED}"
        return Fault(loc, "union_tag_not_found", msg, shown(body), {"discriminator": "'type'"})
    tag = str(shown(body["type"]))
    return Fault(
        loc,
        "union_tag_invalid",
        f"Input tag '{tag}' found using 'type' does not match any of the expected tags:"
        f" {_EXPECTED}",
        shown(body),
        {"discriminator": "'type'", "tag": tag, "expected_tags": _EXPECTED},
    )
