"""anyjev's format: letters for a Choice, Yes and No for a Noul, numbers from 1 for a Score.

Source: anyjev 0.3.0. It has no place for a Noul's criteria; here described sides follow the
question.
"""

from __future__ import annotations

from systone.models.label.presets.base import Listing, Preset, Text, Words

__all__ = ["ANYJEV"]


def write(state: str, listing: Listing) -> Text:
    return Text((f"State:\n{state}\n\nQuestion:", f" {listing.question}\n{_options(listing)}"))


def _options(listing: Listing) -> str:
    if listing.kind == "noul":
        pairs = zip(listing.names, listing.texts, strict=True)
        sides = "".join(f"{name}: {text}\n" for name, text in pairs if text)
        return f"{sides}Answer {listing.labels[0]} or {listing.labels[1]}."
    head, shown, unit = "Options:", listing.lines(), "letter"
    if listing.kind == "score":
        head = "Pick the level that applies (the levels are ordered):"
        shown = [text or "" for text in listing.texts]
        unit = "number" if listing.labels[0].isdigit() else "letter"
    lines = [f"{label}. {line}" for label, line in zip(listing.labels, shown, strict=True)]
    return "\n".join([head, *lines, f"Answer with the {unit} only."])


ANYJEV = Preset(
    name="anyjev",
    write=write,
    words=Words(
        question={
            "choice": "Which option applies?",
            "noul": "Does the statement hold?",
            "score": "Which level applies?",
        },
        sides=("No", "Yes"),
        empty_state="(empty)",
    ),
    system=(
        "You are a decision function. You will be given a state and one question. Reply with the "
        "answer label only: no words, no punctuation, no explanation."
    ),
    forms=("bare", "space"),
    label_sets={"noul": "words", "score": "digits"},
)
