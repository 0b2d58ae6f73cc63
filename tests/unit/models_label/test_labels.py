"""Labels are one token each, in context, distinct; else the model isn't served."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from string import ascii_uppercase

import pytest
from tokenizers import Tokenizer

from systone.errors import ConfigError
from systone.models.label.labels import find_labels
from systone.models.label.presets import PRESETS
from tests.unit.models_label.tiny_models import toy_tokenizer


def encoder(tokenizer: Tokenizer) -> Callable[[Sequence[str]], list[list[int]]]:
    return lambda texts: [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def test_letters_then_pairs_up_to_255() -> None:
    tokenizer = toy_tokenizer(without=frozenset({"AB", "CC"}))
    labels = find_labels(encoder(tokenizer), "</think>\n\n", PRESETS["onejev"])
    texts = [label.text for label in labels.letters]
    assert texts[:26] == list(ascii_uppercase)
    assert texts[26:30] == ["AA", "AC", "AD", "AE"]
    assert "CC" not in texts
    assert len(texts) == len(set(texts)) == 255
    assert len(labels.token_ids) == 255
    for label in labels.letters:
        (column,) = label.columns
        assert tokenizer.id_to_token(labels.token_ids[column]) == label.text


def test_every_form_gives_two_columns_and_only_where_the_format_says_so() -> None:
    encode = encoder(toy_tokenizer())
    both = find_labels(encode, "</think>\n\n", PRESETS["letters"])
    assert {len(label.columns) for label in both.letters} == {2}
    first = find_labels(encode, "</think>\n\n", PRESETS["anyjev"])
    assert {len(label.columns) for label in first.letters} == {1}
    assert [label.text for label in first.words] == ["No", "Yes"]
    assert [label.text for label in first.digits] == list("123456789")


def test_a_label_that_fuses_with_the_context_is_read_after_a_space() -> None:
    # ":(" is one token here, as ":A" is one for Qwen's vocabulary
    tokenizer = toy_tokenizer()
    fused = lambda texts: [  # noqa: E731
        tokenizer.encode(text.replace("Answer:A", "Answer:("), add_special_tokens=False).ids
        for text in texts
    ]
    labels = find_labels(fused, "Answer:", PRESETS["anyjev"])
    (column,) = labels.letters[0].columns
    assert tokenizer.id_to_token(labels.token_ids[column]) == "\u0120A"


def test_a_letter_of_several_tokens_is_refused_by_name_and_ids() -> None:
    encode = encoder(toy_tokenizer())

    def split_c(texts: Sequence[str]) -> list[list[int]]:
        return [[*ids, 7] if text.endswith("C") else ids for text, ids in zip(
            texts, encode(texts), strict=True
        )]  # fmt: skip

    with pytest.raises(ConfigError, match=r"onejev: label 'C'.*bare \[\d+, 7\]: not one token"):
        find_labels(split_c, "</think>\n\n", PRESETS["onejev"])


def test_a_token_is_one_labels_only() -> None:
    encode = encoder(toy_tokenizer())

    def same(texts: Sequence[str]) -> list[list[int]]:
        return encode([text.replace("D", "C") for text in texts])

    with pytest.raises(ConfigError, match=r"label 'D'.*the token of another label"):
        find_labels(same, "</think>\n\n", PRESETS["onejev"])


def test_levels_beyond_the_numbers_of_one_token_get_letters() -> None:
    labels = find_labels(encoder(toy_tokenizer()), "</think>\n\n", PRESETS["anyjev"])
    nine = labels.of("digits", range(9))
    assert [label.text for label in nine] == list("123456789")
    assert [label.text for label in labels.of("digits", range(10))] == list("ABCDEFGHIJ")
    # a word belongs to its option wherever it is shown
    assert [label.text for label in labels.of("words", (1, 0))] == ["Yes", "No"]


def test_fewer_pairs_than_255_leave_fewer_labels() -> None:
    missing = frozenset(a + b for a in ascii_uppercase for b in ascii_uppercase if b > "C")
    labels = find_labels(encoder(toy_tokenizer(without=missing)), "\n", PRESETS["onejev"])
    assert len(labels.letters) == 26 + 26 * 3


def test_forms_are_the_formats_own() -> None:
    preset = replace(PRESETS["onejev"], forms=("space",))
    labels = find_labels(encoder(toy_tokenizer()), "Answer:", preset)
    assert len(labels.letters) == 255
