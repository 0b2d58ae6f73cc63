"""Real requests run before the server listens: every kind, a short state and a long one."""

from __future__ import annotations

from systone.protocol.types import Choice, Noul, Question, Request, Score

__all__ = ["WARMUP"]

_QUESTIONS: dict[str, Question] = {
    "shelf": Choice(
        "Where does the parcel belong?",
        {"cold": "must stay below eight degrees", "dry": "keeps at room temperature", "none": None},
    ),
    "urgent": Noul("Must it leave today?"),
    "fragile": Noul("Can it break?", {"true": "glass or ceramics", "false": "anything else"}),
    "size": Score("How large is it?", ["fits a letter box", "one person carries it", "a pallet"]),
}
_NOTE = "Twelve jars of honey from the mill, packed in straw, for the market on Saturday. "

WARMUP = (
    Request(_NOTE, _QUESTIONS),
    Request({"notes": [_NOTE * 10, _NOTE * 2], "parcel": 1207}, _QUESTIONS),
)
