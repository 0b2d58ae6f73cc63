"""Real requests run before the server listens: every kind, a short state and one over a row."""

from __future__ import annotations

from systone.protocol.types import Choice, Noul, Question, Request, Score

__all__ = ["WARMUP"]

_QUESTIONS: dict[str, Question] = {
    "berth": Choice(
        "Where should the boat moor?",
        {"inner": "sheltered, shallow", "outer": "deep water", "buoy": None},
    ),
    "fuel": Noul("Does the skipper ask for fuel?"),
    "dry": Noul("Is the cargo dry?", {"true": "no water came in", "false": "some got wet"}),
    "wind": Score("How strong is the wind?", ["calm", "a breeze", "a gale"]),
}
_REPORT = "The ketch comes in at dusk with salt and timber, a torn jib and little fuel left. "

WARMUP = (
    Request(_REPORT, _QUESTIONS),
    Request({"log": [_REPORT * 60], "draught": 2.4}, _QUESTIONS),
)
