"""From a directory to a served Laya-class model: proven files, tokenizer, adapter, executor.

The only file of the family that needs torch, and only inside its functions.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

from systone.errors import ConfigError
from systone.models.base import Loaded
from systone.models.laya.adapter import LayaAdapter
from systone.models.laya.budget import SPECIAL_TOKENS, Budgets
from systone.models.laya.card import LayaCheckpoint
from systone.models.laya.config import CONFIG_NAME, LayaConfig, read_config
from systone.models.laya.tokens import LayaTokens
from systone.models.laya.warmup import WARMUP

if TYPE_CHECKING:
    from systone.config import ModelSettings
    from systone.nn.encoder_config import EncoderConfig
    from systone.weights.marker_checkpoint import Proof

__all__ = ["load_directory", "recognises"]

log = logging.getLogger("systone.models.laya")


def recognises(directory: Path) -> bool:
    """Whether the directory has a Laya-class layout."""
    return (directory / CONFIG_NAME).is_file()


def load_directory(directory: Path, settings: ModelSettings) -> Loaded:
    """Serve a checkpoint directory. Raises ConfigError: one line."""
    try:
        from systone.execute.encoder import EncoderExecutor
        from systone.nn.encoder_config import EncoderConfig, MarkerConfig
        from systone.weights.checkpoint import read_json
        from systone.weights.marker_checkpoint import open_weights, prove
    except ImportError as missing:
        raise ConfigError(
            f"{directory}: this model needs torch; install systone[torch] ({missing})"
        ) from None
    config = read_config(directory)
    encoder = directory / "encoder" / "config.json"
    body = EncoderConfig.from_json(read_json(encoder), str(encoder))
    head = MarkerConfig(config.head_layers, config.num_actions)
    tokens = LayaTokens(directory / "tokenizer")
    if tokens.size > body.vocab_size:
        raise ConfigError(
            f"{directory}: the tokenizer has {tokens.size} ids, the body {body.vocab_size}"
        )
    proof = prove(directory)
    log.info("%s: %s", directory, proof.how)
    for name, (fitted, served) in config.temperatures.held.items():
        log.warning("%s: temperature of %s is %g, served as %g", directory, name, fitted, served)
    weights = open_weights(directory, body, head)
    budgets = _budgets(directory, config, body, settings)
    adapter = LayaAdapter(
        _checkpoint(directory, config, proof),
        tokens,
        budgets,
        config.temperatures,
        refuse=settings.truncation == "refuse",
    )
    executor = EncoderExecutor(
        body,
        head,
        weights.tensor,
        device=settings.device,
        dtype=settings.dtype,
        longest=budgets.max_len,
        max_tokens=settings.max_batch_tokens if settings.pack else 1,
    )
    return Loaded(adapter, executor, WARMUP)


def _budgets(
    directory: Path, config: LayaConfig, body: EncoderConfig, settings: ModelSettings
) -> Budgets:
    max_len = settings.max_length or config.max_len
    least = config.head_max_len + SPECIAL_TOKENS
    if not least <= max_len <= body.max_positions:
        raise ConfigError(
            f"{directory}: a row of {max_len} tokens is not between {least} (head_max_len and its "
            f"special tokens) and the body's {body.max_positions} positions"
        )
    return Budgets(max_len, config.head_max_len, keep_tail=settings.truncation == "keep-tail")


def _checkpoint(directory: Path, config: LayaConfig, proof: Proof) -> LayaCheckpoint:
    """Its name is the manifest's, else the directory's: nothing in the files tells published
    checkpoints apart."""
    return LayaCheckpoint(
        name=proof.model_id.rpartition("/")[2] or directory.resolve().name,
        encoder=config.encoder,
        revision=proof.revision,
        release_date=time.strftime("%Y-%m-%d", time.gmtime(directory.stat().st_mtime)),
        calibrated=not proof.synthetic,
    )
