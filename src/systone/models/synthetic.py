"""Models whose weights are drawn in memory as they load: `synth:NAME[:SIZE[:SEED]]`.

For benches and tests at full size without files: the same bits as `systone synth` writes, the same
executor, the real tokenizer. Answers mean nothing, and the card says so first. NAME is a package
that `systone synth` knows, SIZE full (default) or tiny, SEED 0 by default. Needs torch, and only
inside its functions.
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from systone.errors import ConfigError
from systone.models.base import Loaded
from systone.models.placement import LoggedProgress, device_of

if TYPE_CHECKING:
    from systone.config import ModelSettings

__all__ = ["DESCRIPTION", "PREFIX", "check", "is_synthetic", "load", "tokenizer_directory"]

PREFIX = "synth:"
DESCRIPTION = "Synthetic: random weights, answers mean nothing"
TOKENIZER_CLASS = "Qwen2Tokenizer"  # what the hub's configuration names

_SOURCE = re.compile(r"synth:([a-z0-9][a-z0-9.-]*)(?::(full|tiny)(?::(\d{1,9}))?)?")
_RELEASED = "1970-01-01"  # a card needs a date; these weights have none
_LOADERS = {"open-jev": "systone.models.open_jev.load", "kev": "systone.models.kev.load"}

log = logging.getLogger("systone.models.synthetic")


def is_synthetic(source: str) -> bool:
    return source.startswith(PREFIX)


def check(source: str) -> None:
    """Raises ConfigError for a source of another form; the name is looked up when it loads."""
    _parts(source)


def load(source: str, settings: ModelSettings) -> Loaded:
    """Draw the weights on the settings' device and serve them. Raises ConfigError: another form,
    an unknown name, or a package that is missing."""
    name, size, seed = _parts(source)
    try:
        from systone.weights.synth import synthesize_served
    except ImportError as missing:
        raise ConfigError(
            f"{source}: this model needs torch; install systone[torch] ({missing})"
        ) from None
    if settings.base is not None:
        raise ConfigError(f"{source}: draws its base too and takes no --base")
    with tokenizer_directory() as tokenizer:
        served = synthesize_served(
            name,
            size,
            seed,
            device=device_of(settings.device),
            merge=settings.merge,
            tokenizer=tokenizer,
            progress=LoggedProgress(log),
        )
        from systone.weights.families import by_name

        family = import_module(_LOADERS[by_name(name).layout])
        loaded: Loaded = family.serve_weights(served, settings, release_date=_RELEASED)
    log.warning("%s: random weights, answers mean nothing", served.provenance.source)
    card = loaded.adapter.card
    loaded.adapter.card = replace(card, description=f"{DESCRIPTION}. {card.description}")
    return loaded


@contextmanager
def tokenizer_directory() -> Iterator[Path]:
    """A directory with the Qwen3.5 tokenizer, as a base of the series has it, for as long as it
    takes to load. Raises ConfigError without the package it is built from."""
    from systone.weights.synth.tokenizer_file import tokenizer_config, tokenizer_json

    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "tokenizer.json").write_bytes(tokenizer_json())
        config = json.dumps(tokenizer_config(TOKENIZER_CLASS))
        (directory / "tokenizer_config.json").write_text(config)
        yield directory


def _parts(source: str) -> tuple[str, str, int]:
    found = _SOURCE.fullmatch(source)
    if found is None:
        raise ConfigError(f"model {source!r} is not {PREFIX}NAME[:full|tiny[:SEED]]")
    return found[1], found[2] or "full", int(found[3] or 0)
