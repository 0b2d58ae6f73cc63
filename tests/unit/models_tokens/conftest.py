"""The real tokenizer, built once, under each class that readers know."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from systone.models.qwen_tokens import QwenTokenizer, load_tokenizer
from systone.weights.synth.tokenizer_file import tokenizer_config, tokenizer_json


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A directory whose tokenizer_config.json names that class."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            (made[name] / "tokenizer.json").write_bytes(tokenizer_json())
            config = json.dumps(tokenizer_config(name))
            (made[name] / "tokenizer_config.json").write_text(config)
            (made[name] / "config.json").write_text('{"model_type": "qwen3_5"}')
        return made[name]

    return make


@pytest.fixture(scope="session")
def tokenizer(directory: Callable[[str], Path]) -> QwenTokenizer:
    """As the hub's directories of the 3.5 series load: class Qwen2Tokenizer."""
    return load_tokenizer(directory("Qwen2Tokenizer"))


@pytest.fixture(scope="session")
def file_tokenizer(directory: Callable[[str], Path]) -> QwenTokenizer:
    """With the pattern of tokenizer.json itself."""
    return load_tokenizer(directory("Qwen3_5Tokenizer"))
