"""From a directory to a served Kev: verified weights, tokenizer, adapter, executor.

The only file of the family that needs torch, and only inside its functions.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from systone.errors import ConfigError
from systone.models.base import Loaded
from systone.models.kev.adapter import KevAdapter
from systone.models.kev.card import KevCheckpoint, KevSettings
from systone.models.kev.prompt import MAX_LEVELS, MAX_OPTIONS
from systone.models.kev.warmup import WARMUP
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

log = logging.getLogger("systone.models.kev")

_PACKAGE = ("head.pt", "adapter_config.json", "adapter_model.safetensors")
_EXPORT = "decision/head.pt"


def recognises(directory: Path) -> bool:
    """Whether the directory holds a package, a package beside its base, or an export."""
    if (directory / _EXPORT).is_file():
        return True
    places = (directory, directory / "package")
    return any(all((place / name).is_file() for name in _PACKAGE) for place in places)


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
    adapter = KevAdapter(
        KevCheckpoint(
            name=served.provenance.package,
            base=served.model_id,
            base_revision=served.base_revision,
            revision=served.provenance.checkpoint_revision,
            release_date=release_date,
            temperature=served.temperature,
            calibrated=not served.provenance.synthetic,
        ),
        tokenizer,
        KevSettings(
            max_length=settings.max_length,
            truncate=_truncates(settings),
            date_facts=settings.date_facts,
            sharing=sharing,
        ),
    )
    from systone.execute.passes import PassExecutor
    from systone.nn.pointer_model import PointerModel

    dtype = dtype_of(settings.dtype, device_of(settings.device))
    runner = runner_of(
        lambda place: PointerModel.build(served, dtype=dtype, device=place, consume=True),
        settings,
        longest_row=adapter.limits.row,
        readouts=max(MAX_OPTIONS, MAX_LEVELS) + 1,  # a row's options and its end
    )
    return Loaded(adapter, PassExecutor(runner, budget_of(settings), sharing), WARMUP)


def _truncates(settings: ModelSettings) -> bool:
    """The contract's own switch, off by default, keeps a state's first tokens."""
    if settings.truncation == "keep-tail":
        raise ConfigError("--truncation keep-tail: a Kev can only keep the head of a state")
    return settings.truncation == "keep-head"
