"""Real requests run before a Kev is called ready: every kind of question, one state and several
questions, a state of several chunks."""

from __future__ import annotations

from systone.protocol.types import Choice, Noul, Question, Request, Score

__all__ = ["WARMUP"]

_QUESTIONS: dict[str, Question] = {
    "door": Choice(
        "Which door should the courier use?",
        {"front": "small parcels", "yard": "anything on a pallet", "none": None},
    ),
    "signed": Noul("Is a signature needed?"),
    "cold": Noul("Must it be kept cold?", {"true": "food or medicine", "false": "anything else"}),
    "weight": Score("How heavy is it?", ["one hand", "two hands", "two people", "a forklift"]),
}
_NOTE = "Forty trays of seedlings for the school garden, two of them in glass, due before noon. "

WARMUP = (
    Request(_NOTE, _QUESTIONS),
    Request({"notes": [_NOTE * 9, _NOTE], "order": 3117}, _QUESTIONS),
)
