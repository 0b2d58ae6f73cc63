"""From a directory to a served Open-Jev: verified weights, tokenizer, adapter, executor.

The only file of the family that needs torch, and only inside its functions.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from systone.errors import ConfigError
from systone.models.base import Loaded
from systone.models.open_jev.adapter import OpenJevAdapter
from systone.models.open_jev.card import OpenJevCheckpoint, OpenJevSettings
from systone.models.open_jev.warmup import WARMUP
from systone.models.placement import (
    LoggedProgress,
    budget_of,
    device_of,
    dtype_of,
    runner_of,
    written,
)
from systone.models.qwen_tokens import load_tokenizer
from systone.plan import Sharing

if TYPE_CHECKING:
    from systone.config import ModelSettings
    from systone.weights.merged import ServedWeights

__all__ = ["load_directory", "recognises", "serve_weights"]

log = logging.getLogger("systone.models.open_jev")

# A package's description, in the places a package may be in; or an export's.
_MARKS = (
    "model.json",
    "checkpoint/model.json",
    "package/model.json",
    "package/checkpoint/model.json",
    "open_jev_export.json",
)


def recognises(directory: Path) -> bool:
    """Whether the directory holds a package, a package beside its base, or an export."""
    return any((directory / mark).is_file() for mark in _MARKS)


def load_directory(directory: Path, settings: ModelSettings) -> Loaded:
    """Serve a package with its base, or an export. Raises ConfigError: one line."""
    try:
        from systone.weights.served import load_served
    except ImportError as missing:
        raise ConfigError(
            f"{directory}: this model needs torch; install systone[torch] ({missing})"
        ) from None
    served = load_served(
        directory,
        base=settings.base,
        merge=settings.merge,
        device=device_of(settings.device),
        progress=LoggedProgress(log),
    )
    log.info("%s: %s", served.provenance.package, served.provenance.verified)
    return serve_weights(served, settings, release_date=written(directory))


def serve_weights(served: ServedWeights, settings: ModelSettings, *, release_date: str) -> Loaded:
    """Adapter and executor over weights in memory, which the executor's start takes over."""
    if served.tokenizer is None:
        raise ConfigError("these weights name no tokenizer directory")
    sharing = Sharing(settings.effective_policy)
    tokenizer = load_tokenizer(served.tokenizer)
    tokenizer.learn_common_words()
    adapter = OpenJevAdapter(
        OpenJevCheckpoint(
            base=served.model_id,
            base_revision=served.base_revision,
            revision=served.provenance.checkpoint_revision,
            release_date=release_date,
            temperature=served.temperature,
            max_length=served.max_length,
            calibrated=not served.provenance.synthetic,
        ),
        tokenizer,
        OpenJevSettings(max_length=settings.max_length, sharing=sharing),
    )
    from systone.execute.passes import PassExecutor
    from systone.nn.decision import DecisionModel

    dtype = dtype_of(settings.dtype, device_of(settings.device))
    runner = runner_of(
        lambda place: DecisionModel.build(served, dtype=dtype, device=place, consume=True),
        settings,
        longest_row=adapter.max_length,
    )
    return Loaded(adapter, PassExecutor(runner, budget_of(settings), sharing), WARMUP)
