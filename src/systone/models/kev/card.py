"""What a Kev checkpoint is to the outside: names, limits, definitions, settings.

Source of names and limits: the Kev contract, sections 1, 2 and 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from systone.errors import ConfigError
from systone.models.base import Limits, ModelCard
from systone.models.kev.prompt import MAX_LEVELS, MAX_OPTIONS
from systone.models.kev.rows import RowLimits
from systone.plan import Sharing

__all__ = ["MAX_ROW", "MAX_STATE", "KevCheckpoint", "KevSettings", "card_of"]

LORA_RANK = 16  # of every release
MAX_STATE = 65_536  # tokens of a state, its delimiter included
MAX_ROW = 73_728  # tokens of a state with one branch


@dataclass(frozen=True, slots=True)
class KevCheckpoint:
    """The facts of a loaded checkpoint that answers and cards depend on. `name`: as `kev-4b`.

    Raises ConfigError for a temperature that can't be served."""

    name: str
    base: str
    base_revision: str
    revision: str
    release_date: str  # YYYY-MM-DD
    temperature: float
    calibrated: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ConfigError(f"temperature must be positive and finite, not {self.temperature}")


@dataclass(frozen=True, slots=True)
class KevSettings:
    """What the operator chooses: the longest row in tokens (older servers: 8192), whether a state
    over its limit is cut to its first tokens instead of refused, whether a state is told how far
    apart its dates are, and sharing."""

    max_length: int | None = None
    truncate: bool = False
    date_facts: bool = False
    sharing: Sharing = field(default_factory=Sharing)

    def __post_init__(self) -> None:
        if self.max_length is not None and not 2 <= self.max_length <= MAX_ROW:
            raise ConfigError(f"max_length must be between 2 and {MAX_ROW}, not {self.max_length}")

    @property
    def limits(self) -> RowLimits:
        row = self.max_length or MAX_ROW
        return RowLimits(min(MAX_STATE, row), row, self.truncate)


def card_of(checkpoint: KevCheckpoint, limits: RowLimits) -> ModelCard:
    """The card of a checkpoint. `own` has the reference's names of its facts."""
    return ModelCard(
        name=checkpoint.name,
        description=(
            f"Kev on {checkpoint.base}: one row per question, a pointer head over its options; "
            "English, validated up to 8192 tokens"
        ),
        release_date=checkpoint.release_date,
        revision=checkpoint.revision,
        kinds=frozenset({"choice", "noul", "score"}),
        calibrated=checkpoint.calibrated,
        confidence=(
            "choice: (max n - 1/K) / (1 - 1/K), 1 for one option; score: "
            "max(0, 1 - sum_i n_i |i - mode| / D), D = (1/L) sum_i |i - (L-1)/2|, 1 for one level; "
            "noul: none; n are the probabilities before rounding"
        ),
        usage_rule=(
            "input_tokens is the state once plus every question's branch, delimiters included; "
            "output_tokens counts the tokens of the answers' JSON text"
        ),
        limits=Limits(
            max_options=MAX_OPTIONS,
            min_levels=1,
            max_levels=MAX_LEVELS,
            max_tokens=limits.row,
        ),
        aliases=("kev-latest",),
        own={
            "run": f"{checkpoint.name}@{checkpoint.revision}",
            "base": f"{checkpoint.base}@{checkpoint.base_revision}",
            "lora": LORA_RANK,
            "temperature": checkpoint.temperature,
            "max_state_tokens": limits.state,
            "truncate_states": limits.truncate,
        },
    )
