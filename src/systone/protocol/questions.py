"""The `questions` of a System One body to typed questions, or their faults.

Owns what the shapes can't say: ids, a Noul with nothing to read, unknown fields, the order of
faults. What a model makes of missing instructions or one-sided criteria is its adapter's affair.
"""

from __future__ import annotations

from typing import Any

from systone.errors import Fault
from systone.protocol.faults import MAX_FAULTS, shown, unknown_fields
from systone.protocol.rules import WireRules
from systone.protocol.shapes import KINDS, SIDES, check, question_shape
from systone.protocol.sound import sound_question
from systone.protocol.types import Choice, Json, Noul, Question, Score, Text

__all__ = ["in_body_order", "read_questions"]

_FIELDS = ("type", "instructions", "criteria")


def read_questions(
    raw: dict[str, Any], rules: WireRules, faults: list[Fault]
) -> dict[str, Question]:
    """The typed questions by id, in body order; appends every fault found to `faults`."""
    questions: dict[str, Question] = {}
    shape = question_shape(rules)
    for qid, body in raw.items():
        sound = sound_question(body, rules)
        found = [] if sound else check(shape, body, ("questions", qid), rules)
        if not found:
            question = questions[qid] = _typed(body, rules)
            found = [] if rules.dialect == "kev" else _nothing_to_read(qid, question)
        if not qid and rules.dialect != "kev":
            msg = "Question ids must not be empty."
            found.insert(0, Fault(("questions", ""), "value_error", msg, "", exact="sentence"))
        if rules.strict:
            found += _unknown_fields(qid, body, rules)
        if found:
            faults += in_body_order(found, body, depth=3)
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


def _typed(body: dict[str, Any], rules: WireRules) -> Question:
    instructions: Text | None = body.get("instructions")
    criteria: Any = body.get("criteria")
    if body["type"] == "choice":
        return Choice(instructions, criteria)
    if body["type"] == "score":
        return Score(instructions, criteria)
    if criteria and rules.dialect != "open-jev":  # whose contract refuses other keys itself
        criteria = {side: text for side, text in criteria.items() if side in SIDES}
    return Noul(instructions, criteria)


def _nothing_to_read(qid: str, question: Question) -> list[Fault]:
    """The fault of a Noul with neither instructions nor a described side."""
    if not isinstance(question, Noul):
        return []
    texts = (question.instructions, *(question.criteria or {}).values())
    if any(text not in (None, "") for text in texts):
        return []
    msg = f"Noul question must have criteria or instructions: {shown(qid)}"
    return [Fault(("questions", qid, "noul"), "value_error", msg, exact="sentence")]


def _unknown_fields(qid: str, body: Any, rules: WireRules) -> list[Fault]:
    if type(body) is not dict or body.get("type") not in KINDS:
        return []
    loc, criteria = ("questions", qid, body["type"]), body.get("criteria")
    faults = unknown_fields(loc, body, _FIELDS)
    if body["type"] == "noul" and type(criteria) is dict and rules.dialect != "open-jev":
        faults += unknown_fields((*loc, "criteria"), criteria, SIDES)
    return faults
