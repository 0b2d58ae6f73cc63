"""The text side of a transformers model: its tokenizer, its chat template, its limits.

Owns what has to be asked of transformers without loading weights. Knows no questions.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from systone.errors import ConfigError

__all__ = ["CausalLmText", "open_text"]


@dataclass(frozen=True, slots=True, eq=False)
class CausalLmText:
    """`backend`: the tokenizer; `first`: the ids it puts before any text; `template`: the chat
    template's source, empty for none; `architecture` and `max_positions` from the configuration
    (`max_positions` None: not stated)."""

    backend: Tokenizer
    first: tuple[int, ...]
    template: str
    architecture: str
    max_positions: int | None
    _tokenizer: Any

    def around(self, system: str | None) -> tuple[str, str]:
        """The text before and after the content of one user turn, the assistant's turn opened and
        thinking off. A template without a system role gets the system's words in the user turn.

        Raises ConfigError when the template can't be rendered or changes the content."""
        mark = secrets.token_hex(16)
        user = [{"role": "user", "content": mark}]
        if system is None:
            return self._split(user, mark)
        try:
            return self._split([{"role": "system", "content": system}, *user], mark)
        except ConfigError:
            return self._split([{"role": "user", "content": f"{system}\n\n{mark}"}], mark)

    def _split(self, messages: list[dict[str, str]], mark: str) -> tuple[str, str]:
        import jinja2

        try:
            text: str = self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise ConfigError(f"the chat template can't be rendered ({error})") from error
        if text.count(mark) != 1:
            raise ConfigError("the chat template drops or repeats the user's content")
        before, after = text.split(mark)
        if messages[0]["role"] == "system" and messages[0]["content"].strip() not in before:
            raise ConfigError("the chat template drops the system's words")
        return before, after


def open_text(directory: Path) -> CausalLmText:
    """Raises ConfigError: files transformers can't read, or a tokenizer without a fast form."""
    from transformers import AutoConfig, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
        tokenizer = AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"{directory}: transformers can't read it ({line})") from error
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise ConfigError(f"{directory}: its tokenizer has no fast form")
    template = tokenizer.chat_template
    if isinstance(template, dict):
        template = template.get("default", "")
    text = config.get_text_config()
    positions = getattr(text, "max_position_embeddings", None)
    architecture = (config.architectures or [config.model_type])[0]
    return CausalLmText(
        backend=Tokenizer.from_str(backend.to_str()),
        first=_first(tokenizer),
        template=template or "",
        architecture=architecture,
        max_positions=int(positions) if positions else None,
        _tokenizer=tokenizer,
    )


def _first(tokenizer: Any) -> tuple[int, ...]:
    """The special ids before a text: what the tokenizer adds at its start."""
    alone = list(tokenizer("a", add_special_tokens=False)["input_ids"])
    with_special = list(tokenizer("a")["input_ids"])
    for start in range(len(with_special) - len(alone) + 1):
        if with_special[start : start + len(alone)] == alone:
            return tuple(with_special[:start])
    raise ConfigError("the tokenizer reads a text differently with its special tokens")
