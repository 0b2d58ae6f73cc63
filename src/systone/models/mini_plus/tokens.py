"""The byte-level BPE tokenizer that a GGUF file of the "smollm" kind carries.

Owns token ids of plain text; knows no prompts. Special tokens are never read out of the text: a
state that spells "<|im_start|>" is tokenised as the characters it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from systone.errors import ConfigError

__all__ = ["TextTokens"]


class TextTokens:
    """Thread-safe text to ids. `document` is the id that separates documents, `<|endoftext|>`."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        """From a GGUF file's keys; raises ConfigError for another kind of tokenizer."""
        kind = (metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre"))
        if kind != ("gpt2", "smollm"):
            raise ConfigError(f"the GGUF file's tokenizer is {kind}, not ('gpt2', 'smollm')")
        tokens = metadata["tokenizer.ggml.tokens"]
        merges = [tuple(line.split(" ", 1)) for line in metadata["tokenizer.ggml.merges"]]
        vocabulary = {token: i for i, token in enumerate(tokens)}
        unknown = tokens[metadata["tokenizer.ggml.unknown_token_id"]]
        # a byte that the vocabulary lacks becomes the unknown token: nothing is dropped
        bpe = models.BPE(vocabulary, merges, unk_token=unknown)
        self.document: int = vocabulary["<|endoftext|>"]
        self._tokenizer = Tokenizer(bpe)
        # "smollm": every digit alone, then GPT-2's byte-level pattern
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
        self._tokenizer.decoder = decoders.ByteLevel()

    def encode(self, text: str) -> NDArray[np.int64]:
        """Ids [T] of the text alone, without a beginning token."""
        return np.asarray(self._tokenizer.encode(text, add_special_tokens=False).ids, np.int64)

    def decode(self, ids: NDArray[np.int64]) -> str:
        """The text of ids; the inverse of `encode`."""
        return str(self._tokenizer.decode(ids.tolist(), skip_special_tokens=False))
