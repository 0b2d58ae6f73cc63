"""The usual body, recognised without the shapes: most requests are sound, and the shapes, which
name every fault of the others, take longer to say so.

Sufficient, never necessary: what is not recognised here may still be sound.
"""

from __future__ import annotations

from typing import Any

from systone.protocol.rules import WireRules

__all__ = ["sound_body", "sound_question"]

_TEXT = frozenset((str, dict, list))
_SLOT = _TEXT | {type(None)}
_NAME = frozenset((str, type(None)))


def sound_body(body: Any, rules: WireRules) -> bool:
    """Whether `shapes.body_shape` finds no fault, for all that can be seen at once."""
    if type(body) is not dict or type(body.get("state")) not in _TEXT:
        return False
    questions, most = body.get("questions"), rules.limits.max_questions
    return (
        type(questions) is dict
        and len(questions) > 0
        and (most is None or len(questions) <= most)
        and type(body.get("model")) in _NAME
        and body.get("assets") is None
    )


def sound_question(question: Any, rules: WireRules) -> bool:
    """Likewise for `shapes.question_shape`."""
    if type(question) is not dict or type(question.get("instructions")) not in _SLOT:
        return False
    kind, criteria, limits = question.get("type"), question.get("criteria"), rules.limits
    if kind == "noul":
        return criteria is None
    if kind == "choice":
        return (
            type(criteria) is dict
            and 0 < len(criteria) <= limits.max_options
            and _SLOT.issuperset(map(type, criteria.values()))
        )
    return (
        kind == "score"
        and type(criteria) is list
        and 0 < len(criteria) <= limits.max_levels
        and _TEXT.issuperset(map(type, criteria))
    )
