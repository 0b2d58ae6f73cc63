"""Our ids are transformers' ids, for the same directory and whatever the text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from systone.models.qwen_tokens import load_tokenizer
from tests.unit.models_tokens.hostile import PIECES, hostile_texts

transformers = pytest.importorskip("transformers")


def compare(directory: Path, texts: list[str]) -> int:
    """How many texts differ. Loaded through AutoTokenizer, as the official references do."""
    official = transformers.AutoTokenizer.from_pretrained(directory)
    theirs = official(texts, add_special_tokens=False)["input_ids"]
    ours = load_tokenizer(directory).encode_batch(texts)
    return sum(a.tolist() != b for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(
    "name", ["Qwen2Tokenizer", pytest.param("Qwen3_5Tokenizer", marks=pytest.mark.slow)]
)
def test_two_thousand_hostile_texts_give_the_same_ids(
    directory: Callable[[str], Path], name: str
) -> None:
    texts = [*PIECES, *hostile_texts(2_000, seed=1)]
    assert compare(directory(name), texts) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Qwen2Tokenizer", "Qwen3_5Tokenizer"])
def test_fifty_thousand_hostile_texts_give_the_same_ids(
    directory: Callable[[str], Path], name: str
) -> None:
    assert compare(directory(name), list(hostile_texts(50_000, seed=2))) == 0


def test_hostile_texts_tell_the_patterns_apart(
    directory: Callable[[str], Path],
) -> None:
    texts = list(hostile_texts(500, seed=3))
    ours, file = (load_tokenizer(directory(n)) for n in ("Qwen2Tokenizer", "Qwen3_5Tokenizer"))
    differ = sum(
        a.tolist() != b.tolist()
        for a, b in zip(ours.encode_batch(texts), file.encode_batch(texts), strict=True)
    )
    assert differ > 25
