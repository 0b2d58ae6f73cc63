"""Synthetic requests of one length: a Noul whose only prompt has exactly so many tokens.

A forward of N tokens and nothing else: no candidate shares anything with another.
"""

from __future__ import annotations

import random
from typing import Any

from systone.bench.items import Item, Workload
from systone.bench.words import Words
from systone.errors import ConfigError

__all__ = ["synthetic"]

REQUESTS = 64
_QUESTION = 12
_FIXED = 6 + 3 + _QUESTION + 23  # the template around a Noul's state and question
_LIMIT = 16_384  # the longest prompt any model of the family takes


def synthetic(words: Words, tokens: int, seed: int) -> Workload:
    """`synthetic-N`. Raises ConfigError for a length no such prompt can have."""
    if not _FIXED < tokens <= _LIMIT:
        raise ConfigError(f"synthetic-{tokens}: must be {_FIXED + 1} to {_LIMIT} tokens")
    firsts = words.distinct(random.Random(f"synthetic:{tokens}:{seed}"), REQUESTS)

    def make(index: int, variant: int) -> dict[str, Any]:
        rng = random.Random(f"synthetic:{tokens}:{seed}:{index}")
        state = [firsts[index], *words.draw(rng, tokens - _FIXED - 1)]
        asked = words.draw(rng, _QUESTION)
        return {
            "state": " ".join(words.spell(state, variant)),
            "questions": {
                "task": {"type": "noul", "instructions": " ".join(words.spell(asked, variant))}
            },
        }

    items = tuple(
        Item(f"{tokens}-{index}", "noul", 1, 1, tokens, tokens, tokens) for index in range(REQUESTS)
    )
    source = f"{REQUESTS} Nouls of {tokens} tokens; words drawn from the tokenizer's vocabulary"
    return Workload(f"synthetic-{tokens}", source, True, items, make)
