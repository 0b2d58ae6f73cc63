"""OneJev's format: a tagged state, a list of letters, the letter alone as the answer.

Source: onejev 0.1.1, prompt qev-labels-v2.
"""

from __future__ import annotations

from systone.models.label.presets.base import Listing, Preset, Text, Words

__all__ = ["ONEJEV"]

NUM_LETTERS = 26


def write(state: str, listing: Listing) -> Text:
    header = "Rate the state:" if listing.kind == "score" else "Question:"
    lines = zip(listing.labels, listing.lines(), strict=True)
    options = "\n".join(f"{label}. {line}" for label, line in lines)
    unit = "letter" if len(listing.labels) <= NUM_LETTERS else "label"
    return Text(
        (
            f"<state>\n{state}\n</state>\n\n{header}",
            f" {listing.question}\n\nOptions:\n{options}\n\n"
            f"Answer with one {unit}: {', '.join(listing.labels)}.",
        )
    )


ONEJEV = Preset(
    name="onejev",
    write=write,
    words=Words(
        question={
            "choice": "Which option applies to the state?",
            "noul": "Is the statement true, or is the answer to the question yes?",
            "score": "Which level describes the state?",
        },
        sides=("no", "yes"),
        side_texts=(
            "the statement is false / the answer is no",
            "the statement is true / the answer is yes",
        ),
        level="level {}",
    ),
    system=(
        "Apply the question to the state. Choose exactly one of the listed options. "
        "Respond with only its uppercase letter, with no explanation or reasoning."
    ),
    indented=True,
    stripped=True,
)
