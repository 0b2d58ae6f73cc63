"""Token ids of the words of texts: most words of a request were seen before.

Words met before are looked up (`word_split` says where a text may be cut), those of long texts all
at once (`word_table`). A text with few new pieces has those tokenised apart; one that is mostly new
is tokenised whole, and its pieces are learnt from where its tokens start. Ids depend on the piece
alone, so a hit changes nothing but time. Bounded; thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from operator import itemgetter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from systone.models.qwen_cuts import cut_text
from systone.models.word_pieces import MAX_CHARS, Ids, Known, Pieces
from systone.models.word_split import closes, cut_lines, cut_part, opens, pieces_of, resolve
from systone.models.word_table import Missed, WordTable

__all__ = ["MAX_PIECES", "TextEncoder", "WordMemo"]

# Kept beside the words taught at start, at most about 20 MB; a full memo starts anew.
MAX_PIECES = 65_536
LONG = 4096  # characters from which on texts are looked up by array arithmetic
FEW = 0.25  # share of a text's characters that are better tokenised apart

I32 = NDArray[np.int32]

_ADDED = 64  # parts of a text that the table learns at once: about 0.2 ms
_FEW = 8  # parts of a text that the table need not know
_WORDS = "words"  # stands for a run of known ones


class TextEncoder(Protocol):
    """Ids of texts, the same whenever they are asked for."""

    def encode_apart(self, texts: Sequence[str]) -> list[I32]:
        """int32 ids of each."""
        ...

    def encode_whole(self, texts: Sequence[str]) -> list[tuple[I32, I32]]:
        """int32 ids of each, and the character each token starts at."""
        ...


class WordMemo:
    """Keeps at most `max_pieces` pieces, and what `teach` was given."""

    def __init__(self, encoder: TextEncoder, max_pieces: int = MAX_PIECES) -> None:
        self._encoder = encoder
        self._max_pieces = max_pieces
        self._most = max_pieces
        self._taught: dict[str, Ids] = {}
        self._taught_table = WordTable()
        # nothing ever leaves these very dicts: a full memo starts others
        self._first: Known  # of words without a space before them
        self._later: Known  # of words behind a space, by the word alone
        self._other: Known  # of pieces that begin or end in whitespace otherwise
        self._table: WordTable  # of `_later`: what was taught, or met again in long texts
        self._start_anew()

    def __len__(self) -> int:
        return len(self._first) + len(self._later) + len(self._other) - 1

    def teach(self, pieces: Sequence[str]) -> None:
        """Learn these for good, whatever else comes. Before the memo is used."""
        encoded = self._encoder.encode_apart(pieces)
        self._taught = {p: ids.tobytes() for p, ids in zip(pieces, encoded, strict=True)}
        self._taught_table.add(Pieces.of(self._taught.items()).later.items())
        self._start_anew()
        self._most = self._max_pieces + len(self)

    def encode(self, texts: Sequence[str]) -> list[I32]:
        """One int32 array a text, in order; they are read-only."""
        return [np.frombuffer(ids, np.int32) for ids in self.ids(texts)]

    def ids(self, texts: Sequence[str]) -> list[Ids]:
        """The same as bytes."""
        missed = self._table.find(texts) if sum(map(len, texts)) > LONG else None
        if missed is None:
            found = [self._look_up(text) for text in texts]
        else:
            found = [self._look_up_few(*each) for each in zip(texts, missed, strict=True)]
        if list in map(type, found):
            return self._completed(texts, found)
        return found  # type: ignore[return-value]

    def _completed(self, texts: Sequence[str], found: Sequence[Ids | list[Ids | str]]) -> list[Ids]:
        """The ids of texts some of which hold pieces whose ids are not kept."""
        new: dict[str, None] = {}
        cold: dict[str, None] = {}
        for text, pieces in zip(texts, found, strict=True):
            if isinstance(pieces, bytes):
                continue
            missing = [piece for piece in pieces if isinstance(piece, str)]
            if len(missing) > 1 and sum(map(len, missing)) > FEW * len(text):
                cold[text] = None
            else:
                new.update(dict.fromkeys(missing))
        fresh = self._apart(list(new)) if new else {}
        whole = self._whole(list(cold)) if cold else {}
        done = []
        for text, pieces in zip(texts, found, strict=True):
            if isinstance(pieces, bytes):
                done.append(pieces)
            elif text in whole:
                done.append(whole[text])
            else:
                done.append(b"".join([fresh[p] if isinstance(p, str) else p for p in pieces]))
        return done

    def _look_up(self, text: str) -> Ids | list[Ids | str]:
        """The text's ids, or runs of ids and pieces whose ids are not kept."""
        parts = text.split(" ")
        end = self._line_ends(parts)
        first, *words = parts
        later = self._later
        # one call for all words: a third less than map(dict.get)
        known = itemgetter(*words)(later) if len(words) > 1 else [later[word] for word in words]
        found = [self._first[first], *known, end]
        try:
            return b"".join(found)
        except TypeError:  # quicker than to look for one that is None
            filled = self._gaps_filled(parts, found)
            return self._by_runs(parts, found) if filled is None else filled

    def _look_up_few(self, text: str, missed: Missed) -> Ids | list[Ids | str]:
        """As `_look_up`, of a text of which the table knows all but some parts."""
        later = self._later
        parts: list[str] = []
        found: list[Ids | None] = []
        for run, part in missed:
            if run:
                parts.append(_WORDS)
                found.append(run)
            parts.append(part)
            found.append(later[part])
        if len(missed) > _FEW:
            met = ((part, later[part]) for _, part in missed[1:-1])
            new = ((part, ids) for part, ids in met if ids is not None)
            self._table.add(islice(new, _ADDED))
        end = self._line_ends(parts)
        found[-1] = later[parts[-1]]
        found[0] = self._first[parts[0]]
        found.append(end)
        if None not in found:
            return b"".join(found)  # type: ignore[arg-type]
        filled = self._gaps_filled(parts, found)
        return self._look_up(text) if filled is None else filled

    def _line_ends(self, parts: list[str]) -> Ids:
        """The ids of the line ends behind the last part, which are taken off it, or none."""
        last = parts[-1]
        if last[-1:] == "\n":  # most templates end lines; a letter before one is a safe cut
            word = last.rstrip("\n")
            breaks = self._other[last[len(word) :]]
            if breaks is not None and word[-1:].isalpha() and word.isascii():
                parts[-1] = word
                return breaks
        return b""

    def _gaps_filled(
        self, parts: Sequence[str], found: Sequence[Ids | None]
    ) -> Ids | list[Ids | str] | None:
        """As `_look_up`: every unknown part by its own pieces; None where the spaces beside one are
        no safe cuts. `found`: what is known of each part, and what follows the last."""
        filled: list[Ids | list[Ids | str] | None] = list(found)
        at, whole = -1, True
        for _ in range(filled.count(None)):
            at = filled.index(None, at + 1)
            part = parts[at]
            if (part == "" or part.strip() != part) and not _is_apart(parts, at):
                return None
            ids = filled[at] = self._part(part, spaced=at > 0)
            whole = whole and isinstance(ids, bytes)
        if whole:
            return b"".join(filled)  # type: ignore[arg-type]
        return _flat(filled)

    def _by_runs(self, parts: Sequence[str], found: list[Ids | None]) -> list[Ids | str]:
        """The same whatever the spaces."""
        *known, end = found
        if parts[0] == "":
            known[0] = None  # the space behind it may be part of more
        runs = resolve(parts, known)
        return [*(self._piece(p) if isinstance(p, str) else p for p in runs), end or b""]

    def _part(self, part: str, *, spaced: bool) -> Ids | list[Ids | str]:
        """One part between safe spaces, line by line: lines come again, parts across two rarely."""
        if "\n" not in part:
            return self._line(part, spaced=spaced)
        first, *others = cut_lines(part)
        ids = self._line(first, spaced=spaced)
        lines = [ids, *(self._line(line, spaced=False) for line in others)]
        try:
            return b"".join(lines)  # type: ignore[arg-type]
        except TypeError:
            return _flat(lines)

    def _line(self, line: str, *, spaced: bool) -> Ids | list[Ids | str]:
        """What its pieces give is kept: the next look-up finds it."""
        text = f" {line}" if spaced else line
        known = self._piece(text)
        if isinstance(known, bytes):
            return known
        found = [self._piece(piece) for piece in cut_part(text)]
        try:
            ids = b"".join(found)  # type: ignore[arg-type]
        except TypeError:
            return found
        if len(text) <= MAX_CHARS and len(self) < self._most:
            if opens(line) and closes(line):
                (self._later if spaced else self._first)[line] = ids
            else:
                self._other[text] = ids
        return ids

    def _piece(self, piece: str) -> Ids | str:
        found = self._later[piece[1:]] if piece[:1] == " " else self._first[piece]
        return self._other.get(piece, piece) if found is None else found

    def _apart(self, pieces: Sequence[str]) -> dict[str, Ids]:
        encoded = self._encoder.encode_apart(pieces)
        found = {piece: ids.tobytes() for piece, ids in zip(pieces, encoded, strict=True)}
        self._keep(found.items())
        return found

    def _whole(self, texts: Sequence[str]) -> dict[str, Ids]:
        """The ids of whole texts, long ones in pieces that the encoder may spread over cores."""
        cut = [cut_text(text) for text in texts]
        encoded = iter(self._encoder.encode_whole([part for parts in cut for part in parts]))
        made = {}
        for text, parts in zip(texts, cut, strict=True):
            ids = []
            for part in parts:
                of_part, starts = next(encoded)
                self._learn(part, of_part, starts)
                ids.append(of_part.tobytes())
            made[text] = b"".join(ids)
        return made

    def _learn(self, text: str, ids: I32, starts: I32) -> None:
        """The pieces of a text tokenised whole."""
        # where a normaliser may move characters, positions are not trusted
        if not text.isascii():
            return
        pieces = pieces_of(text)
        ends = np.cumsum([len(piece) for piece in pieces])
        borders = [0, *np.searchsorted(starts, ends).tolist()]
        self._keep(
            (piece, ids[a:b].tobytes())
            for piece, (a, b) in zip(pieces, pairwise(borders), strict=True)
        )

    def _keep(self, found: Iterable[tuple[str, Ids]]) -> None:
        new = Pieces.of(islice(found, self._max_pieces))
        if len(self) + len(new) > self._most:
            self._start_anew()
        self._first.update(new.first)
        self._later.update(new.later)
        self._other.update(new.other)

    def _start_anew(self) -> None:
        base = Pieces.of(self._taught.items())
        base.first[""] = b""  # a text that begins with a space, or holds nothing
        self._first, self._later, self._other = base.first, base.later, base.other
        self._table = self._taught_table.copy()


def _flat(runs: Iterable[Ids | list[Ids | str] | None]) -> list[Ids | str]:
    lists = (each if isinstance(each, list) else [each] for each in runs)
    return [piece for each in lists for piece in each]  # type: ignore[misc]


def _is_apart(parts: Sequence[str], at: int) -> bool:
    """Whether the spaces on both sides of a part are safe cuts."""
    part, last = parts[at], len(parts) - 1
    if at and not (opens(part) and (closes(parts[at - 1]) or (at == 1 and parts[0] == ""))):
        return False
    return at == last or (closes(part) and opens(parts[at + 1]))
