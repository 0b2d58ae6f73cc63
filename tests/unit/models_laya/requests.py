"""Generated requests: lengths on both sides of every budget, hostile texts, every kind."""

import random
from typing import Any

from systone.protocol.types import Choice, Noul, Question, Request, Score

_WORDS = [
    *("harbour", "tide", "rope", "salt", "crane", "mooring", "a,", "b;", "c.", "3.14", "x=1"),
    *("[MASK]", "[SEP]", "[CLS]", "[MAS[MASK]K]", "[mask]", "<pad>", "''quoted''"),
    *("Ünïcode", "港", "🚢", "tab\there", "new\nline", "ligature", "ﬁ", "zero\u200bwidth"),
]


class RequestMaker:
    """Requests as wire JSON, by seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def request(self) -> dict[str, Any]:
        state: Any = self._text(self._random.choice((0, 3, 40, 200)))
        if self._random.random() < 0.3:
            state = {"log": [state, 1.5, None, True], "ship": self._text(3)}
        count = self._random.randint(1, 3)
        return {"state": state, "questions": {f"q{i}": self._question() for i in range(count)}}

    def _question(self) -> dict[str, Any]:
        kind = self._random.choice(("noul", "choice", "score"))
        made: dict[str, Any] = {"type": kind}
        if self._random.random() < 0.9:
            made["instructions"] = self._slot(self._random.choice((2, 10, 60)))
        if kind == "noul":
            if self._random.random() < 0.6:
                sides = ("true", "false", "true")[: self._random.randint(1, 3)]
                made["criteria"] = {
                    side: self._slot(self._random.choice((0, 4, 50))) for side in sides
                }
            return made
        count = self._random.choice((1, 2, 3, 5, 6, 10, 11, 25))
        texts = [self._slot(self._random.choice((1, 6, 40))) for _ in range(count)]
        if kind == "score":
            made["criteria"] = texts
            return made
        made["criteria"] = {
            f"{self._text(1)} {i}": self._random.choice((None, "", text))
            for i, text in enumerate(texts)
        }
        return made

    def _slot(self, words: int) -> Any:
        text = self._text(words)
        return {"note": text, "n": [1, 2.0]} if self._random.random() < 0.15 else text

    def _text(self, words: int) -> str:
        return " ".join(self._random.choices(_WORDS, k=words))


def typed(request: dict[str, Any]) -> Request:
    """The request as the engine's message."""
    kinds = {"noul": Noul, "choice": Choice, "score": Score}
    questions: dict[str, Question] = {}
    for id, fields in request["questions"].items():
        rest = {key: value for key, value in fields.items() if key != "type"}
        questions[id] = kinds[fields["type"]](**rest)
    return Request(request["state"], questions)
