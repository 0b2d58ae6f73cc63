"""What stands around a row's content: chat template text, control tokens, the answer's opening.

Owns the split of that fixed text into ids and into text that touches the caller's. Knows no
questions. Control tokens are a tokenizer's added tokens: text never spells one into a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from systone.models.label.presets.base import ANSWER, Preset

__all__ = ["Frame", "chat_frame", "plain_frame"]


@dataclass(frozen=True, slots=True)
class Frame:
    """A prompt is `head`, `lead`, the content, `trail`, `tail`.

    `head` ends and `tail` starts with a control token (or is empty), so that both can be tokenised
    alone; `lead` and `trail` touch the content and hold no control token."""

    head: str
    lead: str
    trail: str
    tail: str
    begins: bool  # whether the tokenizer's own first token (BOS) comes before the head

    def whole(self, content: str) -> str:
        return self.head + self.lead + content + self.trail + self.tail


def chat_frame(before: str, after: str, preset: Preset, controls: Sequence[str]) -> Frame:
    """Around the content as a chat template renders it; `after` opens the assistant's turn.

    A thinking block that the template leaves open is closed, for the answer comes at once."""
    tail = _closed(after) + preset.answer
    places = _places(before, controls)
    cut = places[-1][1] if places else 0
    found = _places(tail, controls)
    start = found[0][0] if found else len(tail)
    return Frame(before[:cut], before[cut:], tail[:start], tail[start:], begins=False)


def plain_frame(preset: Preset) -> Frame:
    """Without a template: the system's words, the content, and a cue for the answer of formats made
    for a chat."""
    lead = f"{preset.system}\n\n" if preset.system else ""
    if preset.layout == "plain":
        return Frame("", lead, "", "", begins=True)
    return Frame("", lead, f"\n{preset.answer or ANSWER}", "", begins=True)


def _closed(text: str) -> str:
    for opened, close in (("<think>\n", "\n</think>\n\n"), ("<think>", "\n\n</think>\n\n")):
        if text.endswith(opened):
            return text + close
    return text


def _places(text: str, controls: Sequence[str]) -> list[tuple[int, int]]:
    """Start and end of every control token, longest match first."""
    if not controls:
        return []
    pattern = "|".join(re.escape(c) for c in sorted(controls, key=len, reverse=True))
    return [match.span() for match in re.finditer(pattern, text)]
