"""What a prompt format is: the words of one row, where its label is read, and its options' order.

Owns the vocabulary; each format is a file beside this one. Knows no tokenizer and no chat template:
a format writes the content of one user turn, and how the answer is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from systone.protocol.types import Kind

# Which labels a question's options get: A.., AA..; Yes and No; 1..9.
LabelSet: TypeAlias = Literal["letters", "words", "digits"]
# A label as it follows the prompt: as it is, or after one space.
Form: TypeAlias = Literal["bare", "space"]
# "chat": the tokenizer's chat template where it has one; "plain": never.
Layout: TypeAlias = Literal["chat", "plain"]

ANSWER = "Answer:"  # opens the answer of a chat format on a model without a chat template


@dataclass(frozen=True, slots=True)
class Words:
    """How a format fills what a question leaves out. Sides are (false, true)."""

    question: Mapping[Kind, str]
    sides: tuple[str, str]
    side_texts: tuple[str | None, str | None] = (None, None)
    level: str = "{}"  # the name of a level, from its index
    empty_state: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """What one row asks, options in the order they are shown.

    `names`, `texts` (None: not described) and `labels` have one entry an option."""

    kind: Kind
    question: str
    names: tuple[str, ...]
    texts: tuple[str | None, ...]
    labels: tuple[str, ...]

    def lines(self, *, names: bool = True) -> list[str]:
        """`name: text` of each option, or the name alone; without `names` a described option is
        its text alone."""
        pairs = zip(self.names, self.texts, strict=True)
        return [
            name if not text else (f"{name}: {text}" if names else text) for name, text in pairs
        ]


@dataclass(frozen=True, slots=True)
class Text:
    """The content of a row's user turn in pieces; joined, they are the content.

    The first `shared` pieces are equal for all questions about a state. `apart`: the format's
    reference tokenises the pieces one by one; else the content is tokenised as a whole."""

    pieces: tuple[str, ...]
    shared: int = 1
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Preset:
    """A prompt format. `write(state, listing)` gives the content of the user turn.

    `answer` follows the opened assistant turn of a chat (or the content, on one more line, without
    a template); `forms` are tried in order, the first that is one token is read, and with
    `every_form` the largest logit of all that are. `yes_first`: a Noul's sides in the order shown.
    `names_shown`: a described option's name is part of the prompt. `isolated_levels`: a Score asks
    one no/yes row a level. `indented`: structured values as JSON of several lines; `stripped`:
    instructions and descriptions without the white space around them."""

    name: str
    write: Callable[[str, Listing], Text]
    words: Words
    layout: Layout = "chat"
    system: str | None = None
    answer: str = ""
    forms: tuple[Form, ...] = ("bare",)
    every_form: bool = False
    label_sets: Mapping[Kind, LabelSet] = field(default_factory=dict)  # "letters" where not named
    yes_first: bool = True
    names_shown: bool = True
    isolated_levels: bool = False
    indented: bool = False
    stripped: bool = False

    def label_set(self, kind: Kind) -> LabelSet:
        return self.label_sets.get(kind, "letters")
