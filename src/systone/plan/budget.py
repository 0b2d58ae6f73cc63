"""What one pass may hold, and what a part of a request asks of it.

Knows no model and no device: whoever owns the device chooses the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from systone.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Load:
    """Tokens computed, read-outs (one a row unless the row says more), states kept for children."""

    tokens: int = 0
    rows: int = 0
    states: int = 0

    def __add__(self, other: Load) -> Load:
        return Load(self.tokens + other.tokens, self.rows + other.rows, self.states + other.states)


@dataclass(frozen=True, slots=True)
class PassBudget:
    """Upper bounds of one pass. A row that alone exceeds them runs alone: rows are never cut."""

    tokens: int = 4096
    rows: int = 1024
    states: int = 256

    def __post_init__(self) -> None:
        for name in ("tokens", "rows", "states"):
            if getattr(self, name) < 1:
                raise ConfigError(f"pass budget: {name} must be at least 1")

    def holds(self, load: Load) -> bool:
        return load.tokens <= self.tokens and load.rows <= self.rows and load.states <= self.states
