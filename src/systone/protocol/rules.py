"""The wire's own limits, as a server or a caller sets them for parsing.

Three places check a request: the wire (here: shapes, and counts so large that no served model
takes them), the dialect (what the hosted API or a reference refuses), and the model's adapter in
`prepare` (its narrower counts, kinds and token budgets). A server whose models take more than the
wire's defaults widens these with `covering`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from systone.protocol.types import Dialect

__all__ = ["WireLimits", "WireRules"]


class _ModelLimits(Protocol):
    @property
    def max_options(self) -> int: ...
    @property
    def max_levels(self) -> int: ...


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Counts a request may hold. At least one option and one level are always needed."""

    max_options: int = 255
    max_levels: int = 10
    max_questions: int | None = None

    @classmethod
    def covering(cls, models: Iterable[_ModelLimits]) -> WireLimits:
        """The wire's defaults, widened to what the widest of `models` takes."""
        limits = list(models)
        return cls(
            max_options=max((cls().max_options, *(m.max_options for m in limits))),
            max_levels=max((cls().max_levels, *(m.max_levels for m in limits))),
        )


@dataclass(frozen=True, slots=True)
class WireRules:
    """How one request is read. `strict` refuses fields we don't know, at every level."""

    dialect: Dialect = "default"
    limits: WireLimits = WireLimits()
    strict: bool = False
