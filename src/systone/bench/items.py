"""What a workload is: requests with their sizes, by index and variant. Knows no HTTP, no clock.

Sizes are Open-Jev's: one prompt per candidate, in tokens of the served model's tokenizer. A variant
is another text of exactly the same sizes, so that no server can answer from an earlier round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from systone.errors import ConfigError

__all__ = ["GROUPS", "Item", "Workload", "group_of"]

# Longest candidate prompt in tokens, both ends included.
GROUPS = ((1, 128), (129, 512), (513, 2048), (2049, 4096))
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Item:
    """One request's sizes. `kind`: choice, noul, score, or mixed when it asks several kinds.

    `rows`: candidate prompts; `longest`, `tokens`: the longest of them and all of them, `unique`:
    what is left when equal leading parts count once. None: no tokenizer was given.
    """

    key: str
    kind: str
    questions: int
    rows: int
    longest: int | None = None
    tokens: int | None = None
    unique: int | None = None

    @property
    def group(self) -> str:
        return group_of(self.longest)


def group_of(longest: int | None) -> str:
    """The name of a length's group."""
    if longest is None:
        return UNKNOWN
    for low, high in GROUPS:
        if low <= longest <= high:
            return f"{low}-{high}"
    return f"{GROUPS[-1][1] + 1}+"


@dataclass(frozen=True, slots=True)
class Workload:
    """`make(index, variant)` is a request's JSON object. `varies`: by variant, in every word."""

    name: str
    source: str
    varies: bool
    items: tuple[Item, ...]
    make: Callable[[int, int], dict[str, Any]]

    def limited(self, requests: int | None, max_tokens: int | None) -> Workload:
        """The first `requests` of those whose longest candidate has at most `max_tokens`.

        Raises ConfigError if nothing is left, or if a length that decides isn't known."""
        chosen = list(range(len(self.items)))
        if max_tokens is not None:
            if any(item.longest is None for item in self.items):
                raise ConfigError("--max-tokens needs --tokenizer DIR to know the lengths")
            chosen = [i for i in chosen if (self.items[i].longest or 0) <= max_tokens]
        chosen = chosen[:requests]
        if not chosen:
            raise ConfigError(f"no request of {self.name} is left to send")
        make = self.make
        return replace(
            self,
            items=tuple(self.items[i] for i in chosen),
            make=lambda index, variant: make(chosen[index], variant),
        )
