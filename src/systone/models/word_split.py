"""Where a text may be cut into words that come again: at single spaces, at line starts, and after
a letter before plain punctuation or a line feed.

Holds for both split patterns of the Qwen family: no piece goes on beyond a single space between
two characters that are no whitespace, beyond a line feed before a letter, or beyond a letter before
one of `STOPS`; no added token holds a space or one of them, and NFC joins nothing to any of these.
Knows no tokenizer. Units are characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

__all__ = ["STOPS", "closes", "cut_lines", "cut_part", "opens", "pieces_of", "resolve"]

STOPS = ".,:;?!\n"

# ASCII letters only, so that the scan needs no Unicode tables.
cut_part = re.compile(rf"(?<=[A-Za-z])(?=[{STOPS}])|(?<=\n)(?=[A-Za-z])").split
cut_lines = re.compile(r"(?<=\n)(?=[A-Za-z])").split


def pieces_of(text: str) -> list[str]:
    """The text cut at every safe place; joined, the pieces are the text."""
    return [piece for word in _words(text.split(" ")) for piece in cut_part(word)]


def resolve(parts: Sequence[str], found: Sequence[bytes | None]) -> list[bytes | str]:
    """`parts` of a text between its spaces, and what is known of each: the text as known runs,
    joined, and pieces between them of which nothing is known. Known parts neither are empty nor
    begin or end in whitespace."""
    out: list[bytes | str] = []
    done, count = 0, len(parts)
    while True:
        missing = next((at for at in range(done, count) if found[at] is None), count)
        begin = missing
        if missing < count and begin and not opens(parts[begin]):
            begin -= 1  # the space before it is not a safe one
        out.append(b"".join(found[done:begin]))  # type: ignore[arg-type]
        if missing == count:
            return out
        done = missing + 1
        while done < count and (found[done] is None or not closes(parts[done - 1])):
            done += 1
        words = _words(parts[begin:done])
        if begin:
            words[0] = f" {words[0]}"
        out += [piece for word in words for piece in cut_part(word)]


def opens(part: str) -> bool:
    """Whether a single space before it is a safe cut, as far as it matters."""
    return part != "" and not part[0].isspace()


def closes(part: str) -> bool:
    """The same of a single space after it."""
    return part != "" and not part[-1].isspace()


def _words(parts: Sequence[str]) -> list[str]:
    words = [parts[0]]
    for before, part in pairwise(parts):
        if closes(before) and opens(part):
            words.append(f" {part}")
        else:
            words[-1] += f" {part}"
    return words
