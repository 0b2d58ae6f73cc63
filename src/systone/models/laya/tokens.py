"""The checkpoint's tokenizer: text to ids, and its special tokens by their role.

Owns reading `tokenizer/`; knows no prompts. Special tokens spelled in a text are parsed as such,
as the official tokenizer does; the mask token is blanked out before (`blank`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from systone.errors import ConfigError

__all__ = ["LayaTokens"]

# Either file may say which token has which role; the first that does counts.
_ROLE_FILES = ("tokenizer_config.json", "special_tokens_map.json")


class LayaTokens:
    """Thread-safe. `cls`, `sep`, `mask` are ids; `size` is one above the largest id."""

    def __init__(self, directory: Path) -> None:
        """Raises ConfigError naming the file that is missing or wrong."""
        path = directory / "tokenizer.json"
        try:
            self._tokenizer = Tokenizer.from_buffer(path.read_bytes())
        except OSError as error:
            raise ConfigError(f"{path}: can't be read ({error.strerror})") from None
        except ValueError as error:
            raise ConfigError(f"{path}: not a tokenizer ({error})") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        roles = _roles(directory)
        self.cls, self.sep, self.mask = (
            self._id(directory, roles, role) for role in ("cls_token", "sep_token", "mask_token")
        )
        self.size = 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values())
        self._mask_text = roles["mask_token"]

    def blank(self, text: str) -> str:
        """The text with every spelling of the mask token replaced by a space."""
        return text.replace(self._mask_text, " ")

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without special tokens around it."""
        found = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def _id(self, directory: Path, roles: dict[str, str], role: str) -> int:
        if role not in roles:
            raise ConfigError(f"{directory}: no file names the {role}")
        id = self._tokenizer.token_to_id(roles[role])
        if id is None:
            raise ConfigError(f"{directory}: the {role} {roles[role]!r} is not in tokenizer.json")
        return int(id)


def _roles(directory: Path) -> dict[str, str]:
    roles: dict[str, str] = {}
    for name in _ROLE_FILES:
        path = directory / name
        if not path.exists():
            continue
        try:
            fields: Any = json.loads(path.read_bytes())
        except ValueError:
            raise ConfigError(f"{path}: not JSON") from None
        if not isinstance(fields, dict):
            raise ConfigError(f"{path}: not a JSON object")
        for role, token in fields.items():
            text = token.get("content") if isinstance(token, dict) else token
            if role.endswith("_token") and isinstance(text, str) and text:
                roles.setdefault(role, text)
    return roles
