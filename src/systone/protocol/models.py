"""`GET /v1/models`: one body that OpenAI's and TypeSafe's clients both read.

Owns the listing's shape; the facts come from each model's card. Aliases are listed after the
models, as the hosted API lists them, each naming the model it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from systone.protocol import jsontext
from systone.protocol.types import Kind

__all__ = ["CardLike", "LimitsLike", "render"]

_KINDS: tuple[Kind, ...] = ("choice", "noul", "score")


class LimitsLike(Protocol):
    """What a model accepts (see `models.base.Limits`)."""

    @property
    def max_options(self) -> int: ...
    @property
    def min_levels(self) -> int: ...
    @property
    def max_levels(self) -> int: ...
    @property
    def max_questions(self) -> int | None: ...
    @property
    def max_tokens(self) -> int | None: ...
    @property
    def max_images(self) -> int: ...


class CardLike(Protocol):
    """What is known of a served model (see `models.base.ModelCard`)."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def release_date(self) -> str: ...
    @property
    def revision(self) -> str: ...
    @property
    def kinds(self) -> frozenset[Kind]: ...
    @property
    def calibrated(self) -> bool: ...
    @property
    def confidence(self) -> str: ...
    @property
    def usage_rule(self) -> str: ...
    @property
    def limits(self) -> LimitsLike: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...


def render(
    cards: Sequence[CardLike],
    *,
    created: int | None = None,
    max_body_bytes: int | None = None,
    owned_by: str = "systone",
) -> bytes:
    """The listing as JSON.

    `created` (Unix seconds) defaults to each model's release date; `max_body_bytes` is the
    server's own limit, published beside the model's."""
    data: list[dict[str, Any]] = []
    models: list[dict[str, Any]] = []
    for name, card in _names(cards):
        facts = _facts(card, max_body_bytes)
        description = card.description
        if name != card.name:
            facts["alias_of"] = card.name
            description = f"Alias of {card.name}: {description}"
        moment = created if created is not None else _unix(card.release_date)
        head = {"id": name, "object": "model", "created": moment, "owned_by": owned_by}
        data.append({**head, **facts})
        models.append(
            {
                "name": name,
                "description": description,
                "release_date": card.release_date,
                **facts,
            }
        )
    return jsontext.dumps({"object": "list", "data": data, "models": models})


def _names(cards: Sequence[CardLike]) -> Iterable[tuple[str, CardLike]]:
    yield from ((card.name, card) for card in cards)
    yield from ((alias, card) for card in cards for alias in card.aliases)


def _facts(card: CardLike, max_body_bytes: int | None) -> dict[str, Any]:
    """What a caller should know before sending: kinds, limits and how to read the numbers."""
    limits = card.limits
    images = limits.max_images > 0
    published: dict[str, Any] = {
        "max_options": limits.max_options,
        "min_levels": limits.min_levels,
        "max_levels": limits.max_levels,
        "max_questions": limits.max_questions,
        "max_tokens": limits.max_tokens,
        "max_images": limits.max_images,
    }
    if max_body_bytes is not None:
        published["max_body_bytes"] = max_body_bytes
    return {
        "revision": card.revision,
        "aliases": list(card.aliases),
        "kinds": [kind for kind in _KINDS if kind in card.kinds],
        "calibrated": card.calibrated,
        "confidence": card.confidence,
        "usage_rule": card.usage_rule,
        "limits": published,
        "architecture": {
            "input_modalities": ["text", "image"] if images else ["text"],
            "output_modalities": ["decisions"],
        },
    }


def _unix(release_date: str) -> int:
    """Midnight UTC of a YYYY-MM-DD date, in Unix seconds."""
    return int(datetime.strptime(release_date, "%Y-%m-%d").replace(tzinfo=UTC).timestamp())
