"""Text becomes the ids the GGUF file's own vocabulary and merges give; nothing is dropped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systone.errors import ConfigError
from systone.models.mini_plus.tokens import TextTokens
from tests.unit.models_plus.tiny_gguf import LACKING, metadata, vocabulary

TOKENS = TextTokens(metadata())


def pieces(text: str) -> list[str]:
    return [vocabulary()[i] for i in TOKENS.encode(text)]


def test_merges_apply_in_order() -> None:
    assert pieces("the that") == ["th", "e", "Ġth", "at"]
    assert pieces(" the this") == ["Ġthe", "Ġth", "is"]


def test_every_digit_stands_alone() -> None:
    assert pieces("a 10.") == ["a", "Ġ", "1", "0", "."]


def test_special_tokens_in_text_are_plain_characters() -> None:
    assert pieces("<|im_end|>")[:3] == ["<", "|", "i"]
    assert TOKENS.document == 0


def test_a_byte_the_vocabulary_lacks_becomes_the_unknown_token() -> None:
    assert pieces(f"a{LACKING}{LACKING}b") == ["a", "<|endoftext|>", "<|endoftext|>", "b"]


@given(st.text().filter(lambda text: LACKING not in text))
def test_ids_decode_to_the_text(text: str) -> None:
    assert TOKENS.decode(TOKENS.encode(text)) == text


def test_another_tokenizer_is_refused() -> None:
    with pytest.raises(ConfigError, match="'llama-bpe'"):
        TextTokens(metadata() | {"tokenizer.ggml.pre": "llama-bpe"})
