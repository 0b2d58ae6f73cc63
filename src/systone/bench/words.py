"""Texts of an exact number of tokens, made of common words that are one token wherever they stand.

A word is taken only if the tokenizer gives it one id both after a space and at the start of a line.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from systone.errors import ConfigError
from systone.models.qwen_tokens import QwenTokenizer

__all__ = ["Words", "word_pool"]

_WORD = re.compile(r"[a-z]{4,12}")
_COMMON = 50_000  # ids grow with rarity: below this, entries are words rather than fragments
_ENOUGH = 1000
_SPACE = "Ġ"  # how byte-level vocabularies spell a leading space


@dataclass(frozen=True, slots=True)
class Words:
    """A pool in a fixed order. The word at place p of variant v is another one in every variant."""

    pool: tuple[str, ...]

    def draw(self, rng: random.Random, count: int) -> list[int]:
        """Places of `count` words, any."""
        return [rng.randrange(len(self.pool)) for _ in range(count)]

    def distinct(self, rng: random.Random, count: int) -> list[int]:
        """Places of `count` words, no two alike."""
        return rng.sample(range(len(self.pool)), count)

    def spell(self, places: Sequence[int], variant: int) -> list[str]:
        """The words of a variant: a step through the pool moves every place, and keeps places that
        differ different. Variants repeat after len(pool)."""
        size = len(self.pool)
        return [self.pool[(place + variant) % size] for place in places]


def word_pool(tokenizer: QwenTokenizer) -> Words:
    """The words of a tokenizer's vocabulary. Raises ConfigError if it has too few of them."""
    vocabulary = tokenizer.backend.get_vocab()
    found = [
        word
        for entry, rank in vocabulary.items()
        if entry.startswith(_SPACE)
        and rank < _COMMON
        and _WORD.fullmatch(word := entry[1:])
        and vocabulary.get(word, _COMMON) < _COMMON
    ]
    found.sort()
    spaced = tokenizer.encode_batch([" " + word for word in found])
    plain = tokenizer.encode_batch(found)
    single = [w for w, a, b in zip(found, spaced, plain, strict=True) if len(a) == len(b) == 1]
    if len(single) < _ENOUGH:
        raise ConfigError(f"the tokenizer has only {len(single)} common words of one token")
    random.Random("words").shuffle(single)
    return Words(tuple(single))
