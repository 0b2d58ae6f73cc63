"""Real requests run before the server listens: every kind, a short state and a long one."""

from __future__ import annotations

from systone.protocol.types import Choice, Noul, Question, Request, Score

__all__ = ["WARMUP"]

_QUESTIONS: dict[str, Question] = {
    "desk": Choice(
        "Which desk should answer?",
        {"stock": "Missing or wrong goods", "accounts": "Bills and refunds", "press": None},
    ),
    "cross": Noul("Is the writer cross?"),
    "known": Noul(None, {"true": "the sender has bought before", "false": "a first order"}),
    "hurry": Score("How soon must it be answered?", ["any time", "this week", "at once"]),
}
_LETTER = "The second crate of lemons never came. We have paid for both of them already. "

WARMUP = (
    Request(state=_LETTER, questions=_QUESTIONS),
    Request(state={"letters": [_LETTER * 12], "customer": 4711}, questions=_QUESTIONS),
)
