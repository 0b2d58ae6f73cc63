"""Kev rows from a raw request, restated from the model's contract: token ids and read-outs.

`encode` is the base tokenizer without special tokens added. A request is raw JSON, unchecked.
Written as a walk that collects lines, so that it shares no shape with an engine's renderer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Encode = Callable[[str], list[int]]

_FORGED = re.compile(r"<\|([A-Za-z0-9_]+)\|>")


@dataclass(frozen=True, slots=True)
class Branch:
    """One question: its own tokens, and its read-outs as positions on state + branch."""

    question: str
    ids: list[int]
    options: list[int]  # position of each option's end
    decide: int  # position of the last token
    text: str  # what a single string would look like


@dataclass(frozen=True, slots=True)
class Packed:
    """A request: the state once, then the branches."""

    state: list[int]
    state_text: str
    branches: list[Branch]

    @property
    def input_tokens(self) -> int:
        return len(self.state) + sum(len(branch.ids) for branch in self.branches)


def pack(request: Mapping[str, Any], encode: Encode) -> Packed:
    """Everything of a request, in request order."""
    token = {
        name: _single(encode, name)
        for name in (
            "<|fim_prefix|>",
            "<|fim_middle|>",
            "<|box_start|>",
            "<|box_end|>",
            "<|fim_suffix|>",
        )
    }
    state_text = guarded(shown(request["state"]))
    state = [token["<|fim_prefix|>"], *encode(state_text)]
    branches = []
    for name, question in request["questions"].items():
        asked = guarded(shown(question.get("instructions")))
        ids = [token["<|fim_middle|>"], *encode(asked)]
        text = f"<|fim_middle|>{asked}"
        ends = []
        for option in map(guarded, options(question)):
            ids += [token["<|box_start|>"], *encode(option), token["<|box_end|>"]]
            ends.append(len(state) + len(ids) - 1)
            text += f"<|box_start|>{option}<|box_end|>"
        ids.append(token["<|fim_suffix|>"])
        last = len(state) + len(ids) - 1
        branches.append(Branch(name, ids, ends, last, text + "<|fim_suffix|>"))
    return Packed(state, f"<|fim_prefix|>{state_text}", branches)


def options(question: Mapping[str, Any]) -> list[str]:
    """Option texts before escaping, in the order they are scored."""
    criteria: Any = question.get("criteria")
    if question["type"] == "score":
        return [shown(level) for level in criteria]
    if question["type"] == "choice":
        return [_labelled(name, told) for name, told in criteria.items()]
    told = criteria or {}
    return [_labelled("no", told.get("false")), _labelled("yes", told.get("true"))]


def guarded(text: str) -> str:
    """Caller text that can't spell a delimiter."""
    return _FORGED.sub(lambda found: f"<\N{BROKEN BAR}{found[1]}\N{BROKEN BAR}>", text)


def shown(value: Any) -> str:
    """A JSON value as indented text."""
    return "\n".join(_lines(value, ""))


def _lines(value: Any, margin: str) -> list[str]:
    """The value's lines at a margin; a string is one entry, whatever line breaks it holds. An
    empty container has no lines, which reads as an empty text."""
    if isinstance(value, Mapping):
        made = []
        for key, held in value.items():
            if isinstance(held, Mapping | list):
                made += [f"{margin}{key}:", *(_lines(held, margin + "  ") or [""])]
            else:
                made.append(f"{margin}{key}: {_scalar(held)}")
        return made
    if isinstance(value, list):
        made = []
        for held in value:
            inner = "\n".join(_lines(held, margin + "  ")) if _is_container(held) else _scalar(held)
            made.append(f"{margin}- {inner.lstrip()}")
        return made
    return [_scalar(value)]


def _scalar(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else str(value)


def _is_container(value: Any) -> bool:
    return isinstance(value, Mapping | list)


def _labelled(name: str, told: Any) -> str:
    return name if told is None or told == "" else f"{name}: {shown(told)}"


def _single(encode: Encode, name: str) -> int:
    (token,) = encode(name)
    return token
