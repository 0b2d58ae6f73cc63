"""The Qwen tokenizer under both of its split patterns, built once and kept in pytest's cache."""

import hashlib
import inspect
import json
from pathlib import Path

import pytest

from systone.models.open_jev import OpenJevAdapter, OpenJevCheckpoint, OpenJevSettings
from systone.models.qwen_tokens import QwenTokenizer, load_tokenizer
from systone.weights.synth import tokenizer_file

CLASSES = ("Qwen2Tokenizer", "Qwen3_5Tokenizer")
NINE_B = OpenJevCheckpoint(
    base="Qwen/Qwen3.5-9B",
    base_revision="c202236235762e1c871ad0ccb60c8ee5ba337b9a",
    revision="47e966881e489511c0c7f5633a9e1960a676a551",
    release_date="2026-01-31",
    temperature=1.8969118766347646,
)


@pytest.fixture(scope="session")
def tokenizer_directories(request) -> dict[str, Path]:
    source = inspect.getsource(tokenizer_file).encode()
    folder = request.config.cache.mkdir(f"qwen-{hashlib.sha256(source).hexdigest()[:16]}")
    made = {}
    for name in CLASSES:
        directory = folder / name
        directory.mkdir(exist_ok=True)
        path = directory / "tokenizer.json"
        if not path.exists():
            config = tokenizer_file.tokenizer_config(name)
            (directory / "tokenizer_config.json").write_text(json.dumps(config))
            part = directory / "tokenizer.json.part"
            part.write_bytes(tokenizer_file.tokenizer_json())
            part.rename(path)
        made[name] = directory
    return made


@pytest.fixture(scope="session")
def tokenizer_directory(tokenizer_directories) -> Path:
    return tokenizer_directories["Qwen2Tokenizer"]


@pytest.fixture(scope="session")
def tokenizers(tokenizer_directories) -> dict[str, QwenTokenizer]:
    return {name: load_tokenizer(path) for name, path in tokenizer_directories.items()}


@pytest.fixture(scope="session")
def tokenizer(tokenizers) -> QwenTokenizer:
    return tokenizers["Qwen2Tokenizer"]


@pytest.fixture
def adapter(tokenizer) -> OpenJevAdapter:
    return OpenJevAdapter(NINE_B, tokenizer)


@pytest.fixture
def adapter_with(tokenizer):
    """Makes an adapter of the 9B with the settings given."""
    return lambda **settings: OpenJevAdapter(NINE_B, tokenizer, OpenJevSettings(**settings))
