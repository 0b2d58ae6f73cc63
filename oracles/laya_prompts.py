"""Laya rows from a raw request, restated from the model's contract: one per question.

Tokenised by transformers from the checkpoint's own `tokenizer/`. Independent of `systone`; a
request is its JSON object, unchecked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

__all__ = ["Row", "Rows"]


@dataclass(frozen=True, slots=True)
class Row:
    """`markers`: positions of the options' mask tokens; `dropped`: tokens of the state left out."""

    kind: str
    ids: list[int]
    markers: list[int]
    dropped: int


class Rows:
    """Makes rows with one tokenizer under one pair of budgets."""

    def __init__(
        self, directory: Path, max_len: int, head_max_len: int, *, keep_tail: bool = False
    ) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(directory / "tokenizer")
        self.max_len, self.head_max_len, self.keep_tail = max_len, head_max_len, keep_tail

    def of(self, request: Mapping[str, Any]) -> list[Row]:
        """One row per question, in request order."""
        state = self._ids(_text(request["state"]))
        return [self._row(question, state) for question in request["questions"].values()]

    def _row(self, question: Mapping[str, Any], state: list[int]) -> Row:
        tok, kind = self.tokenizer, question["type"]
        asked = self._ids(f"{kind} question: {_text(question.get('instructions') or '')}")
        options = [
            [tok.mask_token_id, *self._ids(" " + text)[:48]]
            for text in _options(kind, question.get("criteria"))
        ]
        left = self.head_max_len - sum(len(o) for o in options)
        if left < 16:
            cap = max(4, int((self.head_max_len - 16) / len(options)))
            options = [o[:cap] for o in options]
            left = self.head_max_len - sum(len(o) for o in options)
        ids = [tok.cls_token_id, *asked[: max(8, left)], tok.sep_token_id]
        markers: list[int] = []
        for option in options:
            markers.append(len(ids))
            ids += option
        ids += [tok.sep_token_id]
        room = max(0, self.max_len - 1 - len(ids))
        kept = state[:room]
        if self.keep_tail:
            kept = state[-room:] if room else []
        ids += [*kept, tok.sep_token_id]
        markers = [m for m in markers if m < self.max_len]
        return Row(kind, ids[: self.max_len], markers, len(state) - len(kept))

    def _ids(self, text: str) -> list[int]:
        clean = text.replace(self.tokenizer.mask_token, " ")
        return list(self.tokenizer(clean, add_special_tokens=False)["input_ids"])


def _options(kind: str, criteria: Any) -> list[str]:
    if kind == "score":
        return [f"level {number}: {_text(level)}" for number, level in enumerate(criteria)]
    if kind == "choice":
        return [
            name if text in (None, "") else f"{name}: {_text(text)}"
            for name, text in criteria.items()
        ]
    sides = criteria or {}
    no = sides.get("false") or "no, the statement does not hold"
    yes = sides.get("true") or "yes, the statement holds"
    return [f"false: {_text(no)}", f"true: {_text(yes)}"]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
