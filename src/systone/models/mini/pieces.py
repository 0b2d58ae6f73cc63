"""Texts as WordPiece ids, cut into windows and sentences without losing a piece.

Owns the tokenizer and the cutting rules; knows no question and no model. Lengths are counted in
word pieces without [CLS] and [SEP].
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from systone.errors import ConfigError
from systone.models.mini.constants import MAX_SENTENCES, WINDOW_OVERLAP, WINDOW_PIECES

__all__ = ["Ids", "Pieces", "WordPieces", "sentences_of", "windows_of"]

Ids = tuple[int, ...]
_ROOM = WINDOW_PIECES - 2
# A sentence ends at closing punctuation before a space, at a CJK closing mark, or at a line break.
_BREAK = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[。！？])|[\r\n]+")
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Pieces:
    """One text: its ids and the indices at which its sentences begin (0 first, if any ids)."""

    ids: Ids
    starts: tuple[int, ...]
    blank: bool  # holds no letter or digit: there is nothing to read

    def __len__(self) -> int:
        return len(self.ids)


class WordPieces:
    """The tokenizer. Thread-safe; special tokens spelled in a text are read as plain text."""

    def __init__(self, data: bytes) -> None:
        self._tokenizer = Tokenizer.from_buffer(data)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        self.cls = _special(self._tokenizer, "[CLS]")
        self.sep = _special(self._tokenizer, "[SEP]")

    def read(self, text: str) -> Pieces:
        """All pieces of a text, however long."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        starts = _sentence_starts(text, [begin for begin, _ in encoding.offsets])
        return Pieces(tuple(encoding.ids), tuple(starts), _WORD.search(text) is None)


def _special(tokenizer: Tokenizer, token: str) -> int:
    id = tokenizer.token_to_id(token)
    if id is None:
        raise ConfigError(f"the tokenizer of systone-mini has no {token}")
    return id


def windows_of(pieces: Pieces) -> tuple[Ids, ...]:
    """Whole sentences packed into windows of at most 254 pieces, together holding every piece.

    A sentence longer than a window is cut into overlapping windows of its own.
    """
    windows: list[Ids] = []
    begin = 0
    for start, end in _spans(pieces):
        if end - begin <= _ROOM:
            continue
        if start > begin:
            windows.append(pieces.ids[begin:start])
            begin = start
        if end - start > _ROOM:
            windows.extend(_cut(pieces.ids[start:end]))
            begin = end
    if begin < len(pieces):
        windows.append(pieces.ids[begin:])
    return tuple(windows)


def sentences_of(pieces: Pieces) -> tuple[Ids, ...]:
    """The sentences, each in pieces of at most a window; empty for a text of one sentence.

    Above MAX_SENTENCES neighbours are joined to the smallest common length that meets the bound;
    the last sentence stays on its own.
    """
    spans = list(_spans(pieces))
    if len(spans) > MAX_SENTENCES:
        spans = _joined(spans, -(-len(pieces) // MAX_SENTENCES))
    if len(spans) < 2:
        return ()
    return tuple(ids for start, end in spans for ids in _cut(pieces.ids[start:end]))


def _sentence_starts(text: str, begins: Sequence[int]) -> Iterator[int]:
    """Index of the first piece of every sentence that has a piece; `begins`: character offsets."""
    breaks = [0, *(m.end() for m in _BREAK.finditer(text))]
    piece, count, last = 0, len(begins), -1
    for offset in breaks:
        while piece < count and begins[piece] < offset:
            piece += 1
        if piece < count and piece != last:
            last = piece
            yield piece


def _spans(pieces: Pieces) -> Iterator[tuple[int, int]]:
    return zip(pieces.starts, (*pieces.starts[1:], len(pieces)), strict=True)


def _joined(spans: Sequence[tuple[int, int]], least: int) -> list[tuple[int, int]]:
    """Neighbours joined until they hold `least` pieces; the last sentence stays on its own."""
    *body, last = spans
    joined: list[tuple[int, int]] = []
    begin = body[0][0]
    for _, end in body:
        if end - begin >= least or end == last[0]:
            joined.append((begin, end))
            begin = end
    return [*joined, last]


def _cut(ids: Ids) -> list[Ids]:
    if len(ids) <= _ROOM:
        return [ids]
    step = _ROOM - WINDOW_OVERLAP
    return [ids[at : at + _ROOM] for at in range(0, len(ids) - WINDOW_OVERLAP, step)]
