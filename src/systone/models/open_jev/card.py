"""What an Open-Jev checkpoint is to the outside: names, limits, definitions, settings.

Source of names and limits: the Open-Jev contract, sections 1 and 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from systone.errors import ConfigError
from systone.models.base import Limits, ModelCard
from systone.plan import Sharing

DEFAULT_MAX_LENGTH = 4096
MAX_LENGTH = 16384  # the longest row a model of this family is served with
MAX_QUESTIONS = 4096
MAX_SEQUENCES = 65536  # candidate prompts of one request
MAX_OPTIONS = 255
MAX_LEVELS = 10
MIN_LEVELS = 2  # the model's own; the default dialect answers one level too

# base model -> the name of the checkpoint trained on it
_NAMES = {
    "Qwen/Qwen3.5-2B": "open-jev-2b",
    "Qwen/Qwen3.5-9B": "open-jev-9b",
    "Qwen/Qwen3.8-27B": "open-jev-27b-v1.1",
}


@dataclass(frozen=True, slots=True)
class OpenJevCheckpoint:
    """The facts of a loaded checkpoint that prompts and answers depend on.

    `base` and `base_revision` are `model.json`'s `model_id` and `revision`; `temperature` is one
    scalar for all kinds of question. `calibrated` is false for weights that were never trained.
    Raises ConfigError for numbers that can't be served.
    """

    base: str
    base_revision: str
    revision: str
    release_date: str  # YYYY-MM-DD
    temperature: float
    max_length: int = DEFAULT_MAX_LENGTH
    calibrated: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ConfigError(f"temperature must be positive and finite, not {self.temperature}")
        _check_max_length(self.max_length)


@dataclass(frozen=True, slots=True)
class OpenJevSettings:
    """What the operator chooses.

    `max_length` raises or lowers the checkpoint's own limit of one row, in tokens; `verify_every`
    tokenises the whole prompts of every n-th request again and fails it if the joined pieces
    differ (0: never).
    """

    max_length: int | None = None
    sharing: Sharing = field(default_factory=Sharing)
    verify_every: int = 0

    def __post_init__(self) -> None:
        if self.max_length is not None:
            _check_max_length(self.max_length)
        if self.verify_every < 0:
            raise ConfigError("verify_every must not be negative")


def card_of(checkpoint: OpenJevCheckpoint, max_length: int) -> ModelCard:
    """The card of a checkpoint: replies name the base model, as the contract has it."""
    name = _NAMES.get(checkpoint.base)
    return ModelCard(
        name=checkpoint.base,
        description="Open-Jev: one prompt per candidate, scored yes or no by a scalar head",
        release_date=checkpoint.release_date,
        revision=checkpoint.revision,
        kinds=frozenset({"choice", "noul", "score"}),
        calibrated=checkpoint.calibrated,
        confidence=(
            "choice: (max p - 1/n) / (1 - 1/n), 1 for one option; score: "
            "max(0, 1 - sum_i |i - m| p_i / U), m the first most probable level, "
            "U = (1/n) sum_i |i - (n-1)/2|, 1 for one level; noul: none"
        ),
        usage_rule=(
            "input_tokens is the sum over candidates of their whole prompts, chat tokens "
            "included; shared prefixes count once per candidate"
        ),
        limits=Limits(
            max_options=MAX_OPTIONS,
            min_levels=1,
            max_levels=MAX_LEVELS,
            max_questions=MAX_QUESTIONS,
            max_tokens=max_length,
        ),
        aliases=("open-jev", *((name,) if name else ())),
    )


def _check_max_length(value: int) -> None:
    if not 1 <= value <= MAX_LENGTH:
        raise ConfigError(f"max_length must be between 1 and {MAX_LENGTH}, not {value}")
