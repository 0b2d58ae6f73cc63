"""A model's card as plain lines, for `models` and `check`."""

from __future__ import annotations

from collections.abc import Iterator

from systone.models.base import ModelCard

__all__ = ["card_lines"]


def card_lines(card: ModelCard, source: str) -> Iterator[str]:
    limits = card.limits
    yield f"{card.name}  ({source}, revision {card.revision}, {card.release_date})"
    yield f"  {card.description}"
    yield f"  calibrated: {str(card.calibrated).lower()}"
    yield f"  kinds: {', '.join(sorted(card.kinds))}"
    yield (
        f"  limits: {limits.max_options} options, {limits.min_levels} to {limits.max_levels} "
        f"levels, {_limit(limits.max_questions)} questions, {_limit(limits.max_tokens)} tokens a "
        f"row, {limits.max_images} images"
    )
    yield f"  confidence: {card.confidence}"
    yield f"  usage: {card.usage_rule}"


def _limit(value: int | None) -> str:
    return "any number of" if value is None else str(value)
