"""What a label read-out is to the outside: names, limits, definitions."""

from __future__ import annotations

from dataclasses import dataclass

from systone.models.base import Limits, ModelCard
from systone.models.label.options import LabelOptions

__all__ = ["MAX_LEVELS", "Source", "card_of"]

MAX_LEVELS = 10

_CONFIDENCE = (
    "choice: (max p - 1/n) / (1 - 1/n), 1 for one option; score: "
    "max(0, 1 - sum_i |i - m| p_i / U), m the first most probable level, "
    "U = (1/n) sum_i |i - (n-1)/2|, 1 for one level; noul: none"
)
_USAGE = (
    "input_tokens is the sum over rows of their whole prompts, chat tokens included; a row a "
    "question, times the orders averaged over; shared prefixes count once per row"
)


@dataclass(frozen=True, slots=True)
class Source:
    """A loaded causal language model as its card names it. `max_positions`: longest row."""

    name: str
    revision: str
    release_date: str  # YYYY-MM-DD
    architecture: str
    max_positions: int


def card_of(
    source: Source, options: LabelOptions, *, max_tokens: int, max_options: int
) -> ModelCard:
    """`max_options`: the labels that are one token each on this tokenizer."""
    how = (
        f"read by the logits of label tokens (preset {options.preset}, orders {options.orders})"
        if options.mode == "label"
        else "read by how much more likely a state makes a statement than texts without content do"
    )
    fitted = "temperatures fitted" if options.calibrated else "uncalibrated"
    return ModelCard(
        name=source.name,
        description=f"{source.architecture}, {how}; {fitted}",
        release_date=source.release_date,
        revision=source.revision,
        kinds=frozenset({"choice", "noul", "score"}),
        calibrated=options.calibrated,
        confidence=_CONFIDENCE,
        usage_rule=_USAGE,
        limits=Limits(
            max_options=max_options, min_levels=1, max_levels=MAX_LEVELS, max_tokens=max_tokens
        ),
    )
