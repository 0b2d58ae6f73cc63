"""Real requests run before the server listens: every kind, a short state and a long one."""

from __future__ import annotations

from systone.protocol.types import Choice, Noul, Question, Request, Score

__all__ = ["WARMUP"]

_QUESTIONS: dict[str, Question] = {
    "room": Choice(
        "Which room is meant?",
        {"hall": "large, with a stage", "study": "small and quiet", "other": None},
    ),
    "heated": Noul("Is the room heated?"),
    "late": Noul("Is it after dark?", {"true": "lamps are lit", "false": "the sun is up"}),
    "crowd": Score("How full is it?", ["empty", "half full", "packed"]),
}
_NOTE = "The choir meets by the stage at seven, coats on, for the stove is out again. "

WARMUP = (
    Request(_NOTE, _QUESTIONS),
    Request({"notes": [_NOTE * 8, _NOTE * 2], "number": 4}, _QUESTIONS),
)
