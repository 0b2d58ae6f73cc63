"""The Kev dialect's `GET /v1/models`: a card for each name, with how the model is run.

Owns the fields and their order (the Kev contract, section 6). Knows no model and no device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from systone.protocol import jsontext
from systone.protocol.models import CardLike

__all__ = ["Running", "render"]

# What the reference shows of a model beside its name; null where a model of another family is
# served in this dialect.
_OWN = ("run", "base", "lora", "temperature", "max_state_tokens", "truncate_states")


@dataclass(frozen=True, slots=True)
class Running:
    """A served model as it runs. `modes`: what its executor says of itself; `own`: what its card
    says in this dialect; `batches`: run so far."""

    card: CardLike
    own: Mapping[str, Any]
    modes: Mapping[str, Any]
    batches: int


def render(models: Iterable[Running]) -> bytes:
    """The listing as JSON: aliases first, as callers of this dialect name a model by them."""
    cards = [
        _card(name, model) for model in models for name in (*model.card.aliases, model.card.name)
    ]
    return jsontext.dumps({"models": cards})


def _card(name: str, model: Running) -> dict[str, Any]:
    own = {field: model.own.get(field) for field in _OWN}
    graphs = model.modes.get("launches", {}).get("trunks", {}).get("graphs", 0)
    return {
        "name": name,
        "description": model.card.description,
        "release_date": model.card.release_date,
        "run": own["run"],
        "base": own["base"],
        "lora": own["lora"],
        "device": model.modes.get("device"),
        "backend": model.modes.get("backend"),
        "dtype": model.modes.get("dtype"),
        "temperature": own["temperature"],
        "max_state_tokens": own["max_state_tokens"],
        "truncate_states": own["truncate_states"],
        "cuda_graphs": bool(graphs),
        "prefix_cache": 0,  # states kept from one request to the next: none ever are
        "batches": model.batches,
    }
