"""Texts that break tokenisers: borders of every class of the split pattern, mixed at random."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator

from systone.weights.synth.tokenizer_file import ADDED_TOKENS

PIECES = (
    *(token for token, _ in ADDED_TOKENS),
    *"aZé0٣ \t\n\r\f\v.!<|>'/_-",
    "\r\n",
    "\n\n",
    "   ",
    "'s",
    "'LL",
    "'ſ",
    " Kaffee",
    "加拿大",
    " derrota",
    "हिन्दी",
    "ไทย",
    "บ้าน",
    " किताब",
    "தமிழ்",
    "مُحَمَّد",
    "שָׁלוֹם",
    "한국어",
    "각",  # decomposed Hangul
    "e\u0301",
    "\u0301",
    "\u0338",
    "A\u030a",
    "ﬁ",
    "\u00a0",
    "\u2028",
    "\u3000",
    "\u200b",
    "\u200d",
    "\ufeff",
    "\x00",
    "\x7f",
    "👩‍👩‍👧",
    "🇩🇪",
    "𝔘",
    "\U0010ffff",
    "\ue000",
    "<|im_end",
    "|>",
    "<think",
    "1234567",
    "½",
    "Question:",
    "x" * 40,
)


def hostile_texts(count: int, seed: int) -> Iterator[str]:
    """`count` texts; about a quarter holds arbitrary code points."""
    rng = random.Random(seed)
    for number in range(count):
        parts = rng.choices(PIECES, k=rng.randint(0, 10))
        if number % 4 == 0:
            parts += [_any_character(rng) for _ in range(rng.randint(1, 6))]
            rng.shuffle(parts)
        yield "".join(parts)


def _any_character(rng: random.Random) -> str:
    while True:
        character = chr(rng.randrange(0x110000))
        if unicodedata.category(character) != "Cs":  # lone surrogates are no text
            return character
