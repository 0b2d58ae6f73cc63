"""Prompts to token ids: the caller's text as plain text, the template's control tokens as tokens.

Owns how a tokenizer is split in two (with and without its control tokens) and where a row may be
cut so that rows about one state share its ids. Knows no questions. Units of offsets are characters.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from systone.errors import ConfigError, RequestError
from systone.models.label.frame import Frame
from systone.models.label.presets import Text
from systone.plan import I32, Segment

__all__ = ["PromptTokens", "control_tokens"]

_CONTROL = re.compile(r"<\|.*\|>|</?think>|</?tool_\w+>")

# Contents that show whether parts tokenised apart are the whole.
_PROBES = (
    ("State:\nA short note.\n\nQuestion:", " Is it late?\nOptions:\nA. Yes\nB. No"),
    (" leading space, \u00e9t\u00e9 \u4f60\u597d 12345\n\n\nQuestion:", "\n\n x  y\t\nAnswer: ("),
    ("Question:", ""),
)


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A frame's ids, tokenised once."""

    head: I32
    tail: I32


class PromptTokens:
    """Thread-safe. `controls`: the tokens no text of a caller's may become; `first`: the ids the
    tokenizer puts before any text (BOS, or none).

    `safe_cuts`: pieces of a content tokenised apart give the ids of the whole, whatever the text;
    a family's own proof, never assumed. Otherwise a whole row is tokenised and cut where the last
    token ends that lies inside the shared pieces."""

    def __init__(
        self,
        backend: Tokenizer,
        *,
        controls: Sequence[str],
        first: Sequence[int] = (),
        safe_cuts: bool = False,
    ) -> None:
        backend.no_padding()
        backend.no_truncation()
        self.controls = tuple(controls)
        self.safe_cuts = safe_cuts
        self._real = backend
        self._plain = _without(backend, frozenset(controls))
        self._first = np.array(first, np.int32)
        self._control_ids = frozenset(backend.token_to_id(token) for token in controls)

    def encode_real(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts of ours: added tokens in them are tokens."""
        batch = self._real.encode_batch_fast(list(texts), add_special_tokens=False)
        return [list(encoding.ids) for encoding in batch]

    def encode_plain(self, texts: Sequence[str]) -> list[I32]:
        """Ids of texts of the caller's, whatever they spell."""
        batch = self._plain.encode_batch_fast(list(texts), add_special_tokens=False)
        return [self._guarded(encoding.ids) for encoding in batch]

    def begin(self) -> I32:
        return self._first

    def framed(self, frame: Frame) -> FramedTokens:
        """A maker of rows inside one frame."""
        head, tail = (self._fixed(text) for text in (frame.head, frame.tail))
        if frame.begins:
            head = np.concatenate([self._first, head])
        return FramedTokens(self, frame, _Fixed(head, tail), joined=self._joins(frame, head, tail))

    def whole(self, text: str, *, real: bool) -> tuple[I32, list[tuple[int, int]]]:
        """Ids of one text and the characters each of them covers."""
        encoding = (self._real if real else self._plain).encode(text, add_special_tokens=False)
        ids = np.array(encoding.ids, np.int32) if real else self._guarded(encoding.ids)
        return ids, list(encoding.offsets)

    def refuse_controls(self, text: str) -> None:
        """Raises RequestError when the text spells a control token."""
        spelled = next((token for token in self.controls if token in text), None)
        if spelled is not None:
            raise _spells(spelled)

    def _guarded(self, ids: Sequence[int]) -> I32:
        """A vocabulary may hold a control token's spelling itself; nothing is let through."""
        if not self._control_ids.isdisjoint(ids):
            bad = next(i for i in ids if i in self._control_ids)
            raise _spells(str(self._real.id_to_token(bad)))
        return np.array(ids, np.int32)

    def _fixed(self, text: str) -> I32:
        return np.array(self.encode_real([text])[0] if text else [], np.int32)

    def _joins(self, frame: Frame, head: I32, tail: I32) -> bool:
        """Whether a frame's parts, tokenised apart, are the whole prompt as the model's own
        tokenizer reads it. Some put a mark before the first text of a string only."""
        start = self._first if frame.begins else np.array([], np.int32)
        for pieces in _PROBES:
            content = "".join(pieces)
            (middle,) = self.encode_plain([frame.lead + content + frame.trail])
            (whole,) = self.encode_real([frame.whole(content)])
            if [*head, *middle, *tail] != [*start, *whole]:
                return False
        return True


class FramedTokens:
    """Contents to rows inside one frame."""

    def __init__(self, tokens: PromptTokens, frame: Frame, fixed: _Fixed, *, joined: bool) -> None:
        self._tokens = tokens
        self._frame = frame
        self._fixed = fixed
        self._joined = joined

    def rows(self, texts: Sequence[Text]) -> list[tuple[Segment, ...]]:
        """A path for each content: its shared part, then the rest, which ends at the read-out.

        Raises RequestError for text that this tokenizer can't keep apart from a control token."""
        if not self._tokens.safe_cuts and not all(text.apart for text in texts):
            return [self._whole_row(text) for text in texts]
        return self._joined_rows(texts)

    def context(self, text: Text) -> str:
        """The text right before a label, to be tokenised as the row itself is."""
        if self._frame.tail:
            return self._frame.tail
        last = text.pieces[-1] if text.apart else "".join(text.pieces)
        return (last if text.apart else self._frame.lead + last) + self._frame.trail

    def _joined_rows(self, texts: Sequence[Text]) -> list[tuple[Segment, ...]]:
        framed = [self._framed_pieces(text) for text in texts]
        distinct = list(dict.fromkeys(piece for pieces in framed for piece in pieces))
        ids = dict(zip(distinct, self._tokens.encode_plain(distinct), strict=True))
        # one object a distinct shared part, so that a request's rows share its key too
        shared: dict[tuple[str, ...], Segment] = {}
        rows: list[tuple[Segment, ...]] = []
        for text, pieces in zip(texts, framed, strict=True):
            front = pieces[: text.shared]
            state = shared.get(front)
            if state is None:
                state = Segment.of(np.concatenate([self._fixed.head, *(ids[p] for p in front)]))
                shared[front] = state
            rest = [ids[piece] for piece in pieces[text.shared :]]
            rows.append((state, Segment.of(np.concatenate([*rest, self._fixed.tail]))))
        return rows

    def _framed_pieces(self, text: Text) -> tuple[str, ...]:
        """The pieces with the frame's own text on their outer ends; none is empty."""
        first, *rest = text.pieces
        pieces = [self._frame.lead + first, *rest]
        if self._frame.trail:
            pieces[-1] += self._frame.trail
        return tuple(pieces)

    def _whole_row(self, text: Text) -> tuple[Segment, ...]:
        content, frame = "".join(text.pieces), self._frame
        mark = len("".join(text.pieces[: text.shared]))
        if self._joined:
            middle, offsets = self._tokens.whole(frame.lead + content + frame.trail, real=False)
            ids = np.concatenate([self._fixed.head, middle, self._fixed.tail])
            mark, before = mark + len(frame.lead), self._fixed.head.size
        else:
            self._tokens.refuse_controls(content)
            ids, offsets = self._tokens.whole(frame.whole(content), real=True)
            begin = self._tokens.begin() if frame.begins else ids[:0]
            ids = np.concatenate([begin, ids])
            mark, before = mark + len(frame.head) + len(frame.lead), begin.size
        cut = before + next((i for i, (_, end) in enumerate(offsets) if end > mark), len(offsets))
        cut = min(cut, ids.size - 1)  # the read-out's segment is never empty
        return tuple(Segment.of(part) for part in (ids[:cut], ids[cut:]) if part.size)


def control_tokens(backend: Tokenizer, template: str = "") -> tuple[str, ...]:
    """The added tokens that steer a model rather than spell text: special ones, those of a chat
    template, and those written like one. Others (runs of line feeds, tags) are ways to spell."""
    added = backend.get_added_tokens_decoder().values()
    return tuple(
        token.content
        for token in added
        if token.special or token.content in template or _CONTROL.fullmatch(token.content)
    )


def _without(backend: Tokenizer, controls: frozenset[str]) -> Tokenizer:
    """The same tokenizer reading the control tokens' spellings as text.

    Ids of added tokens outside the vocabulary are given by their order, so these tokens stay in
    their places under names that no text can hold by chance."""
    parts = json.loads(backend.to_str())
    vocabulary = _vocabulary(parts["model"])
    kept = []
    for token in parts["added_tokens"]:
        if token["content"] not in controls:
            kept.append(token)
        elif token["content"] not in vocabulary:
            kept.append(token | {"content": secrets.token_hex(16), "special": False})
    parts["added_tokens"] = kept
    plain = Tokenizer.from_str(json.dumps(parts))
    for token in kept:
        if plain.token_to_id(token["content"]) != token["id"]:
            raise ConfigError(
                f"the tokenizer's added token {token['content']!r} has no id of its own"
            )
    return plain


def _vocabulary(model: Mapping[str, Any]) -> frozenset[str]:
    vocab = model["vocab"]
    return frozenset(vocab if isinstance(vocab, dict) else (piece for piece, _ in vocab))


def _spells(token: str) -> RequestError:
    return RequestError.at(
        (),
        f"a text of this request spells {token!r}, which this model's tokenizer can't read as text",
        type="control_token",
        code="control_token",
    )
