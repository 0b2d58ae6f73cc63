"""Open-Jev prompts from a raw request, restated from the model's contract: one per candidate.

Text only; knows no token. A `question` is the request's JSON object, unchecked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_TURN = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One scored row: the question it belongs to, its candidate, the whole text."""

    question: str
    candidate: str  # option name, level index or "true"
    text: str


def prompts(request: Mapping[str, Any]) -> list[Prompt]:
    """Every candidate of every question, in request order."""
    state = _text(request["state"])
    found = []
    for name, question in request["questions"].items():
        asked = _text(question["instructions"])
        kind, criteria = question["type"], question.get("criteria")
        if kind == "noul":
            if criteria is not None:
                yes, no = _text(criteria["true"]), _text(criteria["false"])
                asked += f"\nYes means: {yes}\nNo means: {no}"
            message = f"Context:\n{state}\n\nQuestion: {asked}\n"
            message += "Is the answer to this question yes? Answer Yes or No."
            found.append(Prompt(name, "true", _TURN.format(message)))
            continue
        for candidate, shown in _candidates(kind, criteria):
            message = f"Context:\n{state}\n\nQuestion: {asked}\nProposed answer: {shown}\n"
            message += "Is this proposed answer correct? Answer Yes or No."
            found.append(Prompt(name, candidate, _TURN.format(message)))
    return found


def _candidates(kind: str, criteria: Any) -> list[tuple[str, str]]:
    if kind == "score":
        return [(str(level), _text(text)) for level, text in enumerate(criteria)]
    return [
        (name, name if text is None else f"{name}: {_text(text)}")
        for name, text in criteria.items()
    ]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)
