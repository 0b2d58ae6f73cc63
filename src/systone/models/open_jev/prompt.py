"""The prompt of one candidate, as text pieces cut where token boundaries are certain.

A prompt is CHAT_PREFIX, the state piece, the question's head, and for Choice and Score an option
piece, then a tail. The pieces hold the caller's text; prefix and tails are fixed. Template
strings: the Open-Jev contract, section 1. Knows no tokenizer and no limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CHAT_PREFIX = "<|im_start|>user\n"
_CHAT_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
OPTION_TAIL = "Is this proposed answer correct? Answer Yes or No." + _CHAT_SUFFIX
NOUL_TAIL = "Is the answer to this question yes? Answer Yes or No." + _CHAT_SUFFIX


@dataclass(frozen=True, slots=True)
class QuestionText:
    """One question's pieces: `options` is empty for a Noul, whose head ends its caller's text."""

    head: str
    options: tuple[str, ...] = ()


def state_text(state: str) -> str:
    """Ends right before `Question:`; the line breaks belong to the state's piece."""
    return f"Context:\n{state}\n\n"


def noul_text(question: str, yes: str | None, no: str | None) -> QuestionText:
    """A side that isn't described has no line."""
    lines = [question]
    if yes is not None:
        lines.append(f"Yes means: {yes}")
    if no is not None:
        lines.append(f"No means: {no}")
    return QuestionText("Question: " + "\n".join(lines) + "\n")


def candidates_text(question: str, options: Sequence[str]) -> QuestionText:
    """One prompt per option. The head ends right after `Proposed answer:`; the space after the
    colon belongs to the option's piece."""
    return QuestionText(
        f"Question: {question}\nProposed answer:", tuple(f" {option}\n" for option in options)
    )


def option_text(name: str, description: str | None) -> str:
    """How a Choice option is proposed."""
    return name if description is None else f"{name}: {description}"


def whole_prompts(state: str, question: QuestionText) -> list[str]:
    """The complete prompts of a question, from the same pieces: what a reference tokenises."""
    start = CHAT_PREFIX + state + question.head
    if not question.options:
        return [start + NOUL_TAIL]
    return [start + option + OPTION_TAIL for option in question.options]
