"""What a Laya-class checkpoint is to the outside: names, limits, definitions, settings."""

from __future__ import annotations

from dataclasses import dataclass

from systone.models.base import Limits, ModelCard
from systone.models.laya.budget import Budgets
from systone.models.laya.prompt import MAX_LEVELS, MAX_OPTIONS

__all__ = ["PUBLISHED", "LayaCheckpoint", "card_of"]

# Published checkpoints and the names callers of the official server know them by.
PUBLISHED = {
    "laya": ("english", "convaiinnovations/laya"),
    "laya-multilingual": ("multilingual", "convaiinnovations/laya-multilingual"),
    "laya-typed-decisions": ("typed-decisions", "convaiinnovations/laya-typed-decisions"),
}


@dataclass(frozen=True, slots=True)
class LayaCheckpoint:
    """The facts of a loaded checkpoint that its card states. `calibrated` is false for weights
    that were never trained."""

    name: str
    encoder: str
    revision: str
    release_date: str  # YYYY-MM-DD
    calibrated: bool


def card_of(checkpoint: LayaCheckpoint, budgets: Budgets, *, refuse: bool) -> ModelCard:
    """`refuse`: whether a row over its budgets is refused rather than cut."""
    over = (
        "longer requests are refused"
        if refuse
        else "longer texts are cut by the model's own budgets and reported"
    )
    return ModelCard(
        name=checkpoint.name,
        description=(
            f"Laya-class encoder on {checkpoint.encoder}: one row per question, one marker per "
            f"option. A row holds {budgets.max_len} tokens, question and options "
            f"{budgets.head_max_len}; {over}"
        ),
        release_date=checkpoint.release_date,
        revision=checkpoint.revision,
        kinds=frozenset({"choice", "noul", "score"}),
        calibrated=checkpoint.calibrated,
        confidence=(
            "choice: (max p - 1/n) / (1 - 1/n), 1 for one option; score: "
            "max(0, 1 - sum_i |i - m| p_i / U), m the first most probable level, "
            "U = (1/n) sum_i |i - (n-1)/2|, 1 for one level; noul: none. "
            "Laya's own (1 - H / log n; max p) are in x_systone"
        ),
        usage_rule="input_tokens is the sum over questions of their whole rows as read",
        limits=Limits(
            max_options=min(MAX_OPTIONS, budgets.max_options),
            max_levels=MAX_LEVELS,
            max_tokens=budgets.max_len,
        ),
        aliases=PUBLISHED.get(checkpoint.name, ()),
    )
