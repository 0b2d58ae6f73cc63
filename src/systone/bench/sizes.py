"""Sizes of arbitrary requests in Open-Jev prompts, by the rules the engine itself tokenises with.

Without a tokenizer the rows are known and the lengths are not.
"""

from __future__ import annotations

from typing import Any

from systone.bench.items import Item
from systone.errors import RequestError
from systone.models.open_jev.checks import read_request
from systone.models.open_jev.rows import RowMaker
from systone.models.qwen_tokens import QwenTokenizer
from systone.plan import Sharing, build_trie
from systone.protocol import jsontext, systemone

__all__ = ["Sizer"]


class Sizer:
    """Measures requests with one tokenizer, or none."""

    def __init__(self, tokenizer: QwenTokenizer | None) -> None:
        self._rows = None if tokenizer is None else RowMaker(tokenizer)

    def item(self, key: str, body: dict[str, Any]) -> Item:
        """Raises RequestError for a body that is no System One request."""
        request = systemone.parse(jsontext.dumps(body), dialect="default")
        kinds = [question.kind for question in request.questions.values()]
        kind = kinds[0] if len(set(kinds)) == 1 else "mixed"
        rows = sum(len(q.get("criteria") or ()) if q["type"] != "noul" else 1 for q in _all(body))
        if self._rows is None:
            return Item(key, kind, len(kinds), rows)
        try:
            text = read_request(request, strict=False)
        except RequestError:
            return Item(key, kind, len(kinds), rows)  # no Open-Jev prompt: other models' request
        trie = build_trie(self._rows.rows(text), Sharing("default"))
        lengths = trie.row_len
        return Item(
            key,
            kind,
            len(kinds),
            rows,
            longest=int(lengths.max()),
            tokens=int(lengths.sum()),
            unique=int(trie.load.tokens),
        )


def _all(body: dict[str, Any]) -> list[dict[str, Any]]:
    return list(body["questions"].values())
