"""Text to token ids with the tokenizer of a checkpoint directory, as transformers would load it.

Owns the loading rule: the class named in `tokenizer_config.json` decides the split pattern, not
the file. Special tokens in the text are parsed as special tokens. Knows no templates, no torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Regex, Tokenizer, normalizers, pre_tokenizers

from systone.errors import ConfigError
from systone.models.word_memo import WordMemo
from systone.models.word_split import STOPS

__all__ = ["CLASS_PATTERN", "FILE_PATTERN", "QwenTokenizer", "load_tokenizer", "split_rule"]

_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?{letters}+|\p{{N}}"
    r"| ?[^\s{inside}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# The pattern of the 3.5 series' tokenizer.json and of Qwen3_5Tokenizer: marks count as letters.
FILE_PATTERN = _SPLIT.format(letters=r"[\p{L}\p{M}]", inside=r"\p{L}\p{M}")
# The pattern Qwen2Tokenizer brings along, whatever the file says.
CLASS_PATTERN = _SPLIT.format(letters=r"\p{L}", inside=r"\p{L}")

_COMMON = 50_000  # ids grow with rarity
_SPACE = "Ġ"  # how byte-level vocabularies spell a leading space
_WORD = re.compile(" ?[A-Za-z]+").fullmatch
_SHORT_CHARS = 4096  # about 2 ms of tokenising on one core

# tokenizer_class -> the pattern transformers (5.10, 5.17) gives it; None: the file's own.
_PATTERNS: dict[str, str | None] = {
    "Qwen2Tokenizer": CLASS_PATTERN,
    "Qwen2TokenizerFast": CLASS_PATTERN,
    "Qwen3_5Tokenizer": FILE_PATTERN,
    "Qwen3_5TokenizerFast": FILE_PATTERN,
    "PreTrainedTokenizerFast": None,
    "TokenizersBackend": None,
}


@dataclass(frozen=True, slots=True)
class QwenTokenizer:
    """A loaded tokenizer. `pattern` is the split pattern in use; thread-safe."""

    backend: Tokenizer
    tokenizer_class: str
    pattern: str
    memo: WordMemo

    @property
    def num_ids(self) -> int:
        """One more than the largest id."""
        return int(self.backend.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str) -> NDArray[np.int32]:
        """int32 [L]; nothing is added before or after the text, and nothing remembered."""
        return np.array(self.backend.encode(text, add_special_tokens=False).ids, dtype=np.int32)

    def encode_batch(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """One int32 array a text, in order, read-only: the ids of `encode`, words met before being
        looked up. The interpreter lock is free while new ones are tokenised."""
        return self.memo.encode(texts)

    def ids(self, texts: Sequence[str]) -> list[bytes]:
        """The same ids as bytes: int32 in memory order."""
        return self.memo.ids(texts)

    def learn_common_words(self) -> None:
        """Teach the memo the words among the vocabulary's first entries, which are the most common
        ones (0.3 s of one core): a server's first requests then are looked up as later ones are.
        Before the tokenizer is shared between threads."""
        entries = (self.backend.id_to_token(rank) for rank in range(_COMMON))
        texts = (entry.replace(_SPACE, " ") for entry in entries if entry)
        self.memo.teach([text for text in texts if _WORD(text)])

    def decode(self, ids: Sequence[int] | NDArray[np.int32]) -> str:
        """The text of ids, special tokens included."""
        return str(self.backend.decode([int(i) for i in ids], skip_special_tokens=False))


@dataclass(frozen=True, slots=True)
class _Backend:
    """What a `WordMemo` asks.

    The library's batches go through a thread pool, which frees the interpreter lock and splits long
    work, but hands over slower than a short text takes."""

    backend: Tokenizer

    def encode_apart(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        model = self.backend.model
        others = iter(self._encodings([text for text in texts if not _WORD(text)]))
        # a word is one piece of every split pattern, and no normaliser or added token touches it
        return [
            np.array(
                [token.id for token in model.tokenize(text.replace(" ", _SPACE))]
                if _WORD(text)
                else next(others).ids,
                np.int32,
            )
            for text in texts
        ]

    def _encodings(self, texts: list[str]) -> list[Encoding]:
        if _is_short(texts):
            return [self.backend.encode(text, add_special_tokens=False) for text in texts]
        return self.backend.encode_batch_fast(texts, add_special_tokens=False)

    def encode_whole(
        self, texts: Sequence[str]
    ) -> list[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        if _is_short(texts):
            found = [self.backend.encode(text, add_special_tokens=False) for text in texts]
        else:
            found = self.backend.encode_batch(list(texts), add_special_tokens=False)
        return [
            (
                np.array(encoding.ids, dtype=np.int32),
                np.array([start for start, _ in encoding.offsets], dtype=np.int32),
            )
            for encoding in found
        ]


def _is_short(texts: Sequence[str]) -> bool:
    return sum(map(len, texts)) <= _SHORT_CHARS


def load_tokenizer(directory: Path | str) -> QwenTokenizer:
    """The tokenizer of a checkpoint directory.

    Raises ConfigError for a missing or broken file, a class this rule doesn't know, a model that
    isn't byte-level BPE without a vocabulary short cut, or added tokens that texts can't be cut
    around.
    """
    path = Path(directory) / "tokenizer.json"
    name = _tokenizer_class(Path(directory))
    backend = _read(path)
    own = _file_pattern(path, backend)
    pattern = _PATTERNS[name] or own
    if _PATTERNS[name] is not None:
        _rebuild(backend, pattern)
    _check_added_tokens(path, backend)
    backend.no_padding()
    backend.no_truncation()
    return QwenTokenizer(backend, name, pattern, WordMemo(_Backend(backend)))


def split_rule(directory: Path | str) -> tuple[str, str]:
    """Class and split pattern of a directory's tokenizer, reading its file only if it must.

    Raises ConfigError as `load_tokenizer`.
    """
    name = _tokenizer_class(Path(directory))
    pattern = _PATTERNS[name]
    return name, pattern if pattern is not None else load_tokenizer(directory).pattern


def _read(path: Path) -> Tokenizer:
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for every fault of the file
        raise ConfigError(f"{path}: not a tokenizer file ({error})") from None


def _tokenizer_class(directory: Path) -> str:
    path = directory / "tokenizer_config.json"
    try:
        name = json.loads(path.read_bytes()).get("tokenizer_class")
    except OSError:
        raise ConfigError(f"{path}: no such file (it names the tokenizer's class)") from None
    except (ValueError, AttributeError):
        raise ConfigError(f"{path}: not a JSON object") from None
    if name is None:
        return "Qwen3_5Tokenizer"  # what transformers takes for model_type qwen3_5
    if name not in _PATTERNS:
        raise ConfigError(f"{path}: tokenizer_class {name!r} is unknown")
    return str(name)


def _file_pattern(path: Path, backend: Tokenizer) -> str:
    """The split pattern the file itself asks for, after checking the parts every class shares."""
    model = backend.model
    if type(model).__name__ != "BPE" or model.byte_fallback or model.dropout:
        raise ConfigError(f"{path}: the model is not plain byte-level BPE")
    if model.ignore_merges:
        raise ConfigError(f"{path}: ignore_merges is set; the official tokenizer has it unset")
    try:
        split, byte_level = _state(backend.pre_tokenizer)["pretokenizers"]
        pattern = split["pattern"]["Regex"]
        plain = not byte_level["add_prefix_space"] and not byte_level["use_regex"]
        nfc = _state(backend.normalizer)["type"] == "NFC"
    except (KeyError, TypeError, ValueError):
        raise ConfigError(f"{path}: not the normaliser and splitter of the Qwen family") from None
    if not (plain and nfc and split["behavior"] == "Isolated" and not split["invert"]):
        raise ConfigError(f"{path}: not the normaliser and splitter of the Qwen family")
    return str(pattern)


def _check_added_tokens(path: Path, backend: Tokenizer) -> None:
    """Texts are cut at characters that no token found in raw text may hold or reach across."""
    for token in backend.get_added_tokens_decoder().values():
        if token.lstrip or token.rstrip or any(c in token.content for c in f" {STOPS}"):
            raise ConfigError(f"{path}: the added token {token.content!r} may reach across words")


def _state(part: Any) -> Any:
    return json.loads(part.__getstate__())


def _rebuild(backend: Tokenizer, pattern: str) -> None:
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
