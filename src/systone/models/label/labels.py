"""The labels a prompt format can be read by on one tokenizer: each one token, in context, distinct.

Owns the check at start-up and the columns of the read-out. Knows no prompts beyond their last text
and no weights. W columns: the distinct token ids whose logits are read.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from systone.errors import ConfigError
from systone.models.label.presets import Preset
from systone.models.label.presets.base import Form, LabelSet

__all__ = ["MAX_LABELS", "Label", "Labels", "find_labels"]

MAX_LABELS = 255
NUM_LETTERS = 26
DIGITS = tuple("123456789")
WORDS = ("No", "Yes")  # the sides of a Noul, by index

Encode = Callable[[Sequence[str]], list[list[int]]]


@dataclass(frozen=True, slots=True)
class Label:
    """`columns`: where its logits stand in a read-out; more than one: the largest counts."""

    text: str
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Labels:
    """`token_ids` [W] of the read-out's columns; the labels of each set, in the order given out.

    `words` is empty where no question of the format is read by Yes and No."""

    token_ids: tuple[int, ...]
    letters: tuple[Label, ...]
    words: tuple[Label, ...] = ()
    digits: tuple[Label, ...] = ()

    def of(self, wanted: LabelSet, order: Sequence[int]) -> tuple[Label, ...]:
        """A label for each option shown, `order` naming the options.

        Words belong to their option wherever it is shown, the other labels to the place. Levels
        get letters where the tokenizer has too few numbers of one token."""
        if wanted == "words":
            return tuple(self.words[option] for option in order)
        numbered = wanted == "digits" and len(self.digits) >= len(order)
        return (self.digits if numbered else self.letters)[: len(order)]


def find_labels(encode: Encode, context: str, preset: Preset) -> Labels:
    """The labels that are one token each right after `context`, the end of a real prompt.

    `encode` gives the ids of whole texts, template tokens included. Raises ConfigError naming the
    label and its ids when a letter A..Z, or a word of the format, isn't one token of its own.
    Two-letter codes that aren't are left out, so there may be fewer than MAX_LABELS."""
    finder = _Finder(encode, context, preset)
    letters = finder.take(tuple(string.ascii_uppercase), required=True)
    pairs = tuple("".join(pair) for pair in product(string.ascii_uppercase, repeat=2))
    letters += finder.take(pairs, limit=MAX_LABELS - NUM_LETTERS)
    sets = set(preset.label_sets.values())
    words = finder.take(WORDS, required=True) if "words" in sets else ()
    digits = finder.take(DIGITS) if "digits" in sets else ()
    # a number that isn't one token ends the scale
    run = [label for label, number in zip(digits, DIGITS, strict=False) if label.text == number]
    return Labels(tuple(finder.columns), letters, words, tuple(run))


class _Finder:
    """Gives out columns while labels are found; a token id belongs to one label only."""

    def __init__(self, encode: Encode, context: str, preset: Preset) -> None:
        self._encode = encode
        self._context = context
        self._preset = preset
        (self._base,) = encode([context])
        self.columns: dict[int, int] = {}  # token id -> column, in column order

    def take(
        self, texts: Sequence[str], *, required: bool = False, limit: int | None = None
    ) -> tuple[Label, ...]:
        found: list[Label] = []
        for text, forms in zip(texts, self._forms(texts), strict=True):
            if limit is not None and len(found) == limit:
                break
            ids = list(dict.fromkeys(self._single(forms)))
            if not ids:
                if required:
                    raise ConfigError(self._reason(text, forms))
                continue
            kept = ids if self._preset.every_form else ids[:1]
            found.append(Label(text, tuple(self._column(own) for own in kept)))
        return tuple(found)

    def _forms(self, texts: Sequence[str]) -> Iterator[list[tuple[Form, list[int]]]]:
        """For each text the ids that follow the context's, form by form."""
        forms = self._preset.forms
        shown = [self._context + (" " if f == "space" else "") + t for t in texts for f in forms]
        whole = iter(self._encode(shown))
        for _ in texts:
            yield [(form, next(whole)) for form in forms]

    def _single(self, forms: list[tuple[Form, list[int]]]) -> list[int]:
        """The ids that are one token of their own, in the order of the forms."""
        size = len(self._base)
        return [
            ids[-1]
            for _, ids in forms
            if ids[:size] == self._base and len(ids) == size + 1 and ids[-1] not in self.columns
        ]

    def _column(self, token_id: int) -> int:
        return self.columns.setdefault(token_id, len(self.columns))

    def _reason(self, text: str, forms: list[tuple[Form, list[int]]]) -> str:
        """Names the label and, form by form, the ids it has where the context's end."""
        size = len(self._base)
        seen = []
        for form, ids in forms:
            same = ids[:size] == self._base
            own = ids[size:] if same else ids[max(0, size - 1) :]
            taken = same and len(own) == 1
            why = "the token of another label" if taken else "not one token of its own"
            seen.append(f"{form} {own}: {why}")
        end = self._context[-20:]
        return (
            f"preset {self._preset.name}: label {text!r} can't be read after {end!r}; "
            + "; ".join(seen)
        )
