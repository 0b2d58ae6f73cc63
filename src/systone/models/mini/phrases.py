"""What a question's texts say, as the sentences and phrases the encoder compares with a state.

Owns the rendering of options, sides and levels and the reading of instructions; knows no vectors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from systone.models.statement import declare

__all__ = ["Proposition", "asks_degree", "option_text", "proposition"]

_POSSESSIVES = ("my", "your", "his", "her", "its", "our", "their")
_DETERMINERS = frozenset(
    ("the", "a", "an", "this", "that", "these", "those", "some", "any", *_POSSESSIVES)
)
_MODALS = ("can", "could", "will", "would", "shall", "should", "may", "might", "must")
_COPULAS = frozenset(("is", "are", "am", "was", "were", "be", "has", "have", "had", *_MODALS))


# "How serious", "rate the ...": not "how many", "how did".
_DEGREE = re.compile(
    r"^\W*(?:how (?!many\b|much\b|does\b|do\b|did\b|can\b|could\b|should\b|to\b|is\b|are\b|was\b)"
    r"\w+|rate|assess|grade|judge)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Proposition:
    """`sentence`: what holds when the answer is yes. `key`: its predicate alone."""

    sentence: str
    key: str


def option_text(name: str, description: str | None) -> str:
    """`name: description`, or the name alone when there is nothing to describe it."""
    return name if description is None or not description.strip() else f"{name}: {description}"


def asks_degree(instructions: str) -> bool:
    """Whether the question asks how far something goes rather than what it is."""
    return _DEGREE.match(instructions) is not None


def proposition(instructions: str) -> Proposition:
    """ "Is the tap open?" -> "The tap is open." and "open".

    Text that isn't a yes/no question stands for itself in both places. Raises ValueError on blank
    text.
    """
    declared = declare(instructions)
    if declared.rule != "inverted":
        text = instructions.strip() if declared.rule == "quoted" else declared.text
        return Proposition(text, text.rstrip(".?! ") or text)
    return Proposition(declared.text, _predicate(declared.text.rstrip(".")))


def _predicate(sentence: str) -> str:
    """Without a leading subject of one noun and without the auxiliary after it."""
    words = sentence.split(" ")
    start = 2 if words[0].lower() in _DETERMINERS else 1
    if start < len(words) - 1 and words[start].lower() in _COPULAS:
        start += 1
    return " ".join(words[start:]) or sentence
