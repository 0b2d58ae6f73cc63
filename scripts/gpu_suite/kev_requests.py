"""Kev requests of exact token counts: words that are one token each, drawn at random.

Units are tokens, delimiters included. Run as a module it writes requests for `systone bench`:

    python3 -m scripts.gpu_suite.kev_requests FILE.jsonl [COUNT]
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from systone.models.base import Loaded
from systone.models.qwen_tokens import load_tokenizer
from systone.models.synthetic import tokenizer_directory
from systone.protocol.types import Choice, Noul, Question, Request, Score

_WORDS = (
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work government "
    "number night point home water room mother area money story fact month lot right study book "
    "eye job word business issue side kind head house service friend father power hour game line "
    "end member law car city community name president team minute idea kid body information back "
    "parent face others level office door health person art war history party result change"
)
_SHOWN = {"noul": 2, "choice": 3, "score": 4}  # options of a question that `of_tokens` makes


class Tokenizer(Protocol):
    def encode_batch(self, texts: Sequence[str]) -> list[Any]: ...


class Writer:
    """Makes requests for one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, seed: int = 5) -> None:
        known = _WORDS.split()
        ids = tokenizer.encode_batch([f" {word}" for word in known])
        self.words = [w for w, found in zip(known, ids, strict=True) if found.size == 1]
        self._rng = random.Random(seed)

    def text(self, count: int) -> str:
        """A text of `count` tokens."""
        return "".join(f" {word}" for word in self._rng.choices(self.words, k=count))

    def state(self, tokens: int) -> str:
        return self.text(tokens - 1)

    def of_tokens(self, kind: str, tokens: int) -> Question:
        """A question whose branch has so many: two delimiters, three tokens an option, the rest
        instructions."""
        asked = self.text(tokens - 2 - 3 * _SHOWN[kind])
        if kind == "noul":
            return Noul(asked)
        if kind == "choice":
            return Choice(asked, {f" {w}": None for w in self._rng.sample(self.words, 3)})
        return Score(asked, [self.text(1) for _ in range(4)])

    def request(self, state: int, questions: int, tokens: int) -> Request:
        """A state and so many questions, kinds in turn, each of `tokens`."""
        kinds = sorted(_SHOWN)
        asked = {f"q{i}": self.of_tokens(kinds[i % 3], tokens) for i in range(questions)}
        return Request(self.state(state), asked)


def writer_of(loaded: Loaded) -> Writer:
    return Writer(loaded.adapter._tokenizer)  # type: ignore[attr-defined]


def exact_list(writer: Writer) -> Iterator[Request]:
    """Borders of states and branches, the smallest and the largest questions: 216 questions."""
    for state in (1, 63, 64, 65, 1023, 1024, 1025, 333):
        yield writer.request(state, 25, 17 + state % 13)
    yield Request(writer.state(40), {"o": Choice(" one", {f"o{i}": None for i in range(255)})})
    yield Request(writer.state(41), {"l": Score(" level", [f"l{i}" for i in range(255)])})
    ends: Sequence[tuple[str, Question]] = (
        ("k", Choice(" only", {"one": None})),
        ("l", Score(" only", ["one"])),
        ("n", Noul(None)),
        ("long", Noul(writer.text(1100))),
        ("long too", Choice(writer.text(1025), {"a": writer.text(64), "b": writer.text(63)})),
    )
    yield Request(writer.state(97), dict(ends))
    yield Request("", dict(ends[:4]))
    yield Request({"notes": [writer.text(70), 1.0, None]}, dict(ends[:3]))
    yield Request(writer.state(7), {"a": ends[2][1], "b": ends[2][1]})


def as_sent(request: Request) -> dict[str, Any]:
    """The request as JSON."""
    questions = {
        name: {"type": q.kind, "instructions": q.instructions}
        | ({} if isinstance(q, Noul) else {"criteria": q.criteria})
        for name, q in request.questions.items()
    }
    return {"state": request.state, "questions": questions}


def main() -> None:
    path, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1500
    with tokenizer_directory() as directory:
        writer = Writer(load_tokenizer(directory))
    lines = [json.dumps(as_sent(writer.request(60, 6, 30))) for _ in range(count)]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
