"""Decider's format, plain and in a chat turn.

Its reference tokenises every piece on its own; beyond ten options each label is a piece. Source:
decider-ai 1.10.0.
"""

from __future__ import annotations

from dataclasses import replace

from systone.models.label.presets.base import Listing, Preset, Text, Words

__all__ = ["DECIDER", "DECIDER_CHAT"]

NARROW = 10  # options written as one piece
SLOT = "\nAnswer: ("


def write(state: str, listing: Listing) -> Text:
    head, options = _question(listing)
    if len(listing.labels) <= NARROW:
        return Text((f"Context:\n{state}", head + "".join(options) + SLOT), apart=True)
    return Text((f"Context:\n{state}", head, *options, SLOT), apart=True)


def write_chat(state: str, listing: Listing) -> Text:
    head, options = _question(listing)
    if len(listing.labels) <= NARROW:
        options = ["".join(options)]
    return Text((f"Context:\n{state}", head, *options), apart=True)


def _question(listing: Listing) -> tuple[str, list[str]]:
    """The question's head, and its options in pieces."""
    pieces = []
    for label, line in zip(listing.labels, listing.lines(), strict=True):
        pieces += ["\n(", label, f") {line}"]
    return f"\n\nQuestion: {listing.question}\nOptions:", pieces


_MISSING = "Which answer fits the context?"

DECIDER = Preset(
    name="decider",
    write=write,
    words=Words(question=dict.fromkeys(("choice", "noul", "score"), _MISSING), sides=("no", "yes")),
    layout="plain",
    yes_first=False,
    isolated_levels=True,
)

DECIDER_CHAT = replace(
    DECIDER, name="decider-chat", write=write_chat, layout="chat", answer="Answer: ("
)
