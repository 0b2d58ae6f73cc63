"""Questions asked from Python, held to the same rules as those that come over the wire.

Turns a state and question values into the wire's body and reads it back with the wire's own parser,
so that a mistake is the same RequestError everywhere and models see plain JSON values only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from systone.errors import RequestError
from systone.protocol import systemone
from systone.protocol.rules import WireLimits
from systone.protocol.types import Question, Request, Text

__all__ = ["request_of"]


def request_of(
    state: Text, questions: Mapping[str, Question], model: str | None, limits: WireLimits
) -> Request:
    """A checked request. Raises RequestError naming every fault."""
    body: dict[str, Any] = {
        "state": state,
        "questions": {name: _body(question) for name, question in questions.items()},
    }
    if model is not None:
        body["model"] = model
    try:
        text = json.dumps(body, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError.at((), f"The request is not plain JSON: {error}.") from None
    return systemone.parse(text.encode(), dialect="default", limits=limits)


def _body(question: Question) -> dict[str, Any]:
    criteria = question.criteria
    if isinstance(criteria, Mapping):
        criteria = dict(criteria)
    elif criteria is not None and not isinstance(criteria, str):
        criteria = list(criteria)
    return {
        "type": question.kind,
        "instructions": question.instructions,
        "criteria": criteria,
    }
