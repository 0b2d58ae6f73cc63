"""What is sent when: levels, rounds, blocks, and which text each block uses. Pure and seeded.

A block is a run of requests at one level to one target without a pause. With one target a round is
one block; with two, rounds are cut into parts and each part goes to both in balanced order.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from systone.errors import ConfigError

__all__ = ["OPEN_WORKERS", "WARMUP_ROUND", "Block", "Level", "Plan"]

WARMUP_ROUND = -1
OPEN_WORKERS = 256  # requests an open loop may have in flight; more start late, which counts

Target = Literal["a", "b", "null"]


@dataclass(frozen=True, slots=True)
class Level:
    """`amount`: requests in flight (closed) or requests a second (open)."""

    mode: Literal["closed", "open"]
    amount: float

    @property
    def key(self) -> str:
        return f"{'c' if self.mode == 'closed' else 'r'}{self.amount:g}"

    @classmethod
    def parse(cls, key: str) -> Level:
        """The level of a `key`. Raises ConfigError."""
        mode: Literal["closed", "open"] = "closed" if key.startswith("c") else "open"
        try:
            amount = float(key[1:])
        except ValueError:
            amount = 0.0
        level = cls(mode, amount)
        sane = math.isfinite(amount) and amount > 0 and level.key == key
        if not sane or (mode == "closed" and amount != int(amount)):
            raise ConfigError(f"{key!r} is no level: c16 is a concurrency, r20 a rate")
        return level

    def workers(self, count: int) -> int:
        """Connections for a block of `count` requests."""
        return min(count, int(self.amount) if self.mode == "closed" else OPEN_WORKERS)


@dataclass(frozen=True, slots=True)
class Block:
    """`items`: indices into the workload, in the order sent."""

    target: Target
    level: Level
    round: int
    part: int
    variant: int
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """`same_texts`: every block uses variant 0, so that answers can be compared.
    `same_levels`: every level uses the same variants, round by round, so that its answers can be
    compared with those of the first level."""

    items: int
    levels: tuple[Level, ...]
    rounds: int = 3
    warmups: int = 5
    targets: tuple[Target, ...] = ("a",)
    part_size: int = 33
    same_texts: bool = False
    seed: int = 0
    same_levels: bool = False

    def blocks(self) -> Iterator[Block]:
        """Level by level: warm-ups of every target, then the rounds."""
        variant = 0
        for level in self.levels:
            variant *= not self.same_levels
            for target in self.targets:
                if self.warmups:
                    items = tuple(i % self.items for i in range(self.warmups))
                    yield Block(target, level, WARMUP_ROUND, 0, variant, items)
                    variant += not self.same_texts
            turn = random.Random(f"order:{self.seed}:{level.key}").randrange(2)
            for round_ in range(self.rounds):
                for part, items in enumerate(self.parts()):
                    order = self.targets if turn % 2 == 0 else self.targets[::-1]
                    turn += 1
                    for target in order:
                        yield Block(target, level, round_, part, variant, items)
                variant += not self.same_texts

    def parts(self) -> Sequence[tuple[int, ...]]:
        """A round's requests as blocks."""
        size = self.items if len(self.targets) == 1 else self.part_size
        every = range(self.items)
        return [tuple(every[at : at + size]) for at in range(0, self.items, size)]

    @property
    def num_requests(self) -> int:
        """Warm-ups included."""
        return len(self.levels) * len(self.targets) * (self.warmups + self.rounds * self.items)
