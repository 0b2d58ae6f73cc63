"""The models one process serves, and the names a request may call them by.

The first model is the default: it answers requests without a name and, unless switched off, those
for `jev-latest` and `jev-preview`, which official clients send. Knows no queue and no device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from systone.config import ModelSettings
from systone.errors import ConfigError
from systone.models.base import Loaded, ModelCard
from systone.protocol.refusals import unknown_model
from systone.schedule.budget import Budget

__all__ = ["JEV_ALIASES", "Catalog", "Served", "brief"]

JEV_ALIASES = ("jev-latest", "jev-preview")


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """One model with how it is run. `card` lists every alias it answers to here."""

    card: ModelCard
    loaded: Loaded
    settings: ModelSettings

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def budget(self) -> Budget:
        """What one batch may hold: the settings' bounds, and no more than gains by it. Once the
        executor has started."""
        budget, executor = self.settings.budget, self.loaded.executor
        return replace(
            budget,
            requests=_least(budget.requests, executor.max_batch_requests),
            tokens=_least(budget.tokens, executor.max_batch_tokens),
            whole_tokens=executor.whole_tokens,
        )


class Catalog:
    """Names are a model's own; an alias that several models go by means the first of them, and is
    listed by that one only. Raises ConfigError if there is no model, or if two have one name."""

    def __init__(
        self, models: Sequence[tuple[Loaded, ModelSettings]], *, jev_aliases: bool
    ) -> None:
        if not models:
            raise ConfigError("no model to serve")
        cards = [loaded.adapter.card for loaded, _ in models]
        names = [card.name for card in cards]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"two models would answer to the name {name!r}")
        taken = {name for card in cards for name in _own_names(card)}
        self._by_name: dict[str, Served] = {}
        served = []
        for i, (loaded, settings) in enumerate(models):
            card = _with_aliases(cards[i], JEV_ALIASES if jev_aliases and i == 0 else (), taken)
            taken.update(card.aliases)
            served.append(Served(card, loaded, settings))
            for name in (*_own_names(card), *card.aliases):
                self._by_name[name] = served[-1]
        self.served = tuple(served)

    @property
    def by_name(self) -> Mapping[str, Served]:
        return self._by_name

    def resolve(self, name: str | None) -> Served:
        """The model a request means. Raises RequestError (404, `unknown_model`)."""
        if name is None:
            return self.served[0]
        served = self._by_name.get(name)
        if served is None:
            raise unknown_model(name, [served.name for served in self.served])
        return served


def _least(bound: int, other: int | None) -> int:
    return bound if other is None else min(bound, other)


def _own_names(card: ModelCard) -> tuple[str, str]:
    return card.name, f"{card.name}@{card.revision}"


def _with_aliases(card: ModelCard, extra: Sequence[str], taken: set[str]) -> ModelCard:
    """The card with the aliases, its own and the extra ones, that nobody before it has."""
    wanted = dict.fromkeys((*card.aliases, *extra))
    return replace(card, aliases=tuple(name for name in wanted if name not in taken))


def brief(card: ModelCard) -> str:
    """A model in one line: name, revision, whether calibrated, its description's first sentence."""
    first = card.description.partition(". ")[0].removesuffix(".")
    calibrated = str(card.calibrated).lower()
    return f"{card.name} (revision {card.revision}, calibrated: {calibrated}): {first}"
