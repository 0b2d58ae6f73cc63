"""Requests in the shape of JevBench's 231 public tasks: their lengths and kinds, other texts.

`shape231.csv` gives the length of one prompt that lists all options. With a prompt per candidate
(the Open-Jev contract, section 1), each holds its own option only: tokens - (n - 1) * option. The
split into parts is assumed: questions of 20 (hard) or 12 tokens, options of 28 or 12, all
candidates of a request equally long. Totals: 775 prompts, 525,811 tokens one by one, 168,801 when
equal leading parts count once. Units are tokens.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any

from systone.bench.items import Item, Workload
from systone.bench.words import Words

__all__ = ["Shape", "shape_231", "shapes"]

_HEAD = 6  # <|im_start|> user \n Context : \n
_ASK = 3  # \n\n Question :
_PROPOSE = 5  # \n Proposed answer :
_TAIL = 21  # after an option: the closing question and the end of the chat turn
_NOUL_TAIL = 23  # the same after a question
_SEED = 231

SOURCE = (
    "lengths of JevBench's 231 public tasks (shape231.csv); words drawn from the tokenizer's "
    "vocabulary, none of the tasks' text"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """One request: the lengths of its state, its question and each of its options."""

    row: int
    kind: str
    candidates: int
    state: int
    question: int
    option: int  # 0 for a Noul

    @property
    def prefix(self) -> int:
        """What all candidates share."""
        asked = _HEAD + self.state + _ASK + self.question
        return asked + (_PROPOSE if self.option else 0)

    @property
    def suffix(self) -> int:
        return self.option + _TAIL if self.option else _NOUL_TAIL

    @property
    def item(self) -> Item:
        longest = self.prefix + self.suffix
        return Item(
            key=f"row-{self.row}",
            kind=self.kind,
            questions=1,
            rows=self.candidates,
            longest=longest,
            tokens=self.candidates * longest,
            unique=self.prefix + self.candidates * self.suffix,
        )


def shapes() -> list[Shape]:
    """All 231, shuffled once so that any leading part mixes tiers."""
    text = (resources.files("systone.bench") / "shape231.csv").read_text()
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    found = [_shape(row) for row in csv.DictReader(lines)]
    random.Random(_SEED).shuffle(found)
    return found


def _shape(row: dict[str, str]) -> Shape:
    hard, kind = row["tier"] == "hard", row["kind"]
    count, listed = int(row["candidates"]), int(row["tokens"])
    question = 20 if hard else 12
    option = 0 if kind == "noul" else 28 if hard else 12
    total = listed - (count - 1) * option
    fixed = Shape(int(row["row"]), kind, count, 0, question, option)
    state = total - fixed.prefix - fixed.suffix
    return Shape(int(row["row"]), kind, count, state, question, option)


def shape_231(words: Words, seed: int) -> Workload:
    """The workload. No two requests of a variant share more than the template's first tokens."""
    found = shapes()
    firsts = words.distinct(random.Random(f"231:{seed}"), len(found))

    def make(index: int, variant: int) -> dict[str, Any]:
        shape = found[index]
        rng = random.Random(f"231:{seed}:{shape.row}")
        state = [firsts[index], *words.draw(rng, shape.state - 1)]
        asked = words.draw(rng, shape.question)
        question: dict[str, Any] = {
            "type": shape.kind,
            "instructions": " ".join(words.spell(asked, variant)),
        }
        if shape.option:
            options = list(_options(words, rng, shape, variant))
            question["criteria"] = dict(options) if shape.kind == "choice" else _levels(options)
        return {
            "state": " ".join(words.spell(state, variant)),
            "questions": {"task": question},
        }

    return Workload("231-shape", SOURCE, True, tuple(s.item for s in found), make)


def _options(
    words: Words, rng: random.Random, shape: Shape, variant: int
) -> Iterator[tuple[str, str]]:
    """(first word, the others). A choice spends one more token on the colon between them."""
    rest = shape.option - (2 if shape.kind == "choice" else 1)
    for first in words.distinct(rng, shape.candidates):
        name, *text = words.spell([first, *words.draw(rng, rest)], variant)
        yield name, " ".join(text)


def _levels(options: list[tuple[str, str]]) -> list[str]:
    return [f"{first} {rest}" for first, rest in options]
