"""Labelled items: one question with several states and the answer expected for each.

Owns reading the two file forms: ours (a question a line with its items) and labelled requests
(`request` and `expected` a line, as public benchmarks are converted to). Knows no model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from systone.protocol.types import Choice, Noul, Question, Score, Text

__all__ = ["Item", "Labelled", "read_items"]


@dataclass(frozen=True, slots=True)
class Item:
    """`expected`: an option's name, whether the answer is yes, or a level's index."""

    state: Text
    expected: str | bool | int


@dataclass(frozen=True, slots=True)
class Labelled:
    """A question and its items; `id` is unique within a file."""

    id: str
    question: Question
    items: tuple[Item, ...]


def read_items(path: Path) -> list[Labelled]:
    """The questions of a file in order of appearance. Raises ValueError for another form."""
    with path.open(encoding="utf-8") as file:
        lines = [json.loads(line) for line in file if line.strip()]
    if not lines:
        raise ValueError(f"{path} holds no item")
    if all("items" in line for line in lines):
        return [_ours(line) for line in lines]
    if all("request" in line and "expected" in line for line in lines):
        return list(_by_question(lines))
    raise ValueError(
        f"{path}: every line needs `question` and `items`, or `request` and `expected`"
    )


def question_of(body: Mapping[str, Any]) -> Question:
    """A question from its wire form, already known to be valid."""
    instructions, criteria = body.get("instructions"), body.get("criteria")
    if body["type"] == "choice":
        return Choice(instructions, criteria)
    if body["type"] == "score":
        return Score(instructions, criteria)
    return Noul(instructions, criteria)


def _ours(line: Mapping[str, Any]) -> Labelled:
    items = tuple(Item(item["state"], item["expected"]) for item in line["items"])
    return Labelled(line["id"], question_of(line["question"]), items)


def _by_question(lines: list[Any]) -> Iterator[Labelled]:
    found: dict[str, tuple[Any, list[Item]]] = {}
    for line in lines:
        for id, question in line["request"]["questions"].items():
            item = Item(line["request"]["state"], line["expected"][id])
            found.setdefault(id, (question, []))[1].append(item)
    for id, (question, items) in found.items():
        yield Labelled(id, question_of(question), tuple(items))
