"""Words of long texts are looked up all at once: with the ids they have one by one."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from systone.models import word_memo, word_table
from systone.models.qwen_tokens import load_tokenizer
from systone.models.word_table import MAX_BYTES, MAX_IDS, WordTable
from tests.unit.models_tokens.hostile import PIECES, hostile_texts
from tests.unit.models_tokens.test_word_memo import ALPHABET

CLASSES = ["Qwen2Tokenizer", "Qwen3_5Tokenizer"]


def ids_of(*ids: int) -> bytes:
    return np.array(ids, np.int32).tobytes()


def table_of(words: dict[str, bytes]) -> WordTable:
    table = WordTable()
    table.add(words.items())
    return table


def expected(texts: list[str], words: dict[str, bytes]) -> list[list[tuple[bytes, str]]]:
    """What `find` says of the texts, part by part."""
    found = []
    for text in texts:
        parts = text.split(" ")
        missed, run = [], b""
        for at, part in enumerate(parts):
            if part in words and 0 < at < len(parts) - 1:
                run += words[part]
            else:
                missed.append((run, part))
                run = b""
        found.append(missed)
    return found


@pytest.fixture
def every_text_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """And every word is looked for in every place, and added as soon as it is met."""
    monkeypatch.setattr(word_memo, "LONG", -1)
    monkeypatch.setattr(word_memo, "_FEW", 0)
    monkeypatch.setattr(word_table, "_FEW", 0)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.usefixtures("every_text_is_long")
def test_texts_mixed_at_random_have_the_ids_of_the_whole_text(
    directory: Callable[[str], Path], name: str
) -> None:
    tokenizer = load_tokenizer(directory(name))
    tokenizer.learn_common_words()
    texts = st.lists(st.sampled_from([*ALPHABET, " ", " the", " of"]), max_size=14).map("".join)

    @settings(
        max_examples=400,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(st.lists(texts, min_size=1, max_size=4))
    def check(texts: list[str]) -> None:
        whole = [tokenizer.encode(text).tolist() for text in texts]
        for _ in range(2):
            assert [ids.tolist() for ids in tokenizer.encode_batch(texts)] == whole

    check()


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.usefixtures("every_text_is_long")
def test_hostile_texts_have_the_ids_of_the_whole_text(
    directory: Callable[[str], Path], name: str
) -> None:
    tokenizer = load_tokenizer(directory(name))
    tokenizer.learn_common_words()
    texts = ["", " ", "\n", "a", " a", "a ", *PIECES, *hostile_texts(300, seed=12)]
    texts += [f"the {a} word {b}\n\n" for a, b in zip(texts, reversed(texts), strict=True)]
    whole = [tokenizer.encode(text).tolist() for text in texts]
    for _ in range(2):
        assert [ids.tolist() for ids in tokenizer.encode_batch(texts)] == whole
    assert [tokenizer.encode_batch([text])[0].tolist() for text in texts] == whole


@pytest.mark.parametrize("rare", [0.0, 0.02, 0.3])
def test_long_texts_have_the_ids_of_the_whole_text(tokenizer_taught, rare: float) -> None:
    rng = random.Random(f"long {rare}")
    common = [
        "the",
        "customer",
        "wrote",
        "an",
        "order",
        "late.",
        "Friday,",
        "4711",
        "18.50",
        "Ärger",
    ]
    strange = [*PIECES, "incomprehensibilities", "x" * 16, "x" * 17, "a\nb", "\n\n", "", "\t", "né"]
    for _ in range(20):
        words = [
            rng.choice(strange) if rng.random() < rare else rng.choice(common)
            for _ in range(rng.randint(900, 2500))
        ]
        texts = [" ".join(words), " an order:\n", " ".join(words[:3]), ""]
        whole = [tokenizer_taught.encode(text).tolist() for text in texts]
        assert [ids.tolist() for ids in tokenizer_taught.encode_batch(texts)] == whole


@pytest.fixture(scope="module")
def tokenizer_taught(directory: Callable[[str], Path]):
    tokenizer = load_tokenizer(directory("Qwen2Tokenizer"))
    tokenizer.learn_common_words()
    return tokenizer


def test_words_that_differ_in_length_or_in_zeros_only_are_different_words() -> None:
    names = ["a", "a\0", "\0", "\0" * 8, "\0" * 16, "abcdefgh", "abcdefghi", "ÿþ", "x" * MAX_BYTES]
    words = {name: ids_of(at + 1, at) for at, name in enumerate(names)}
    table = table_of(words)
    others = ["", "aa", "\0\0", "\0" * 7, "x" * 15, "x" * 17, "abcdefg", "\ud800", "þÿ", "\uffff"]
    for other in others:
        text = " ".join(["q", *names, other, *names, "q"])
        if other:
            assert table.find([text]) == expected([text], words)


def test_every_word_added_is_found_however_many() -> None:
    rng = random.Random(5)
    letters = "abcdefghijklmnop"
    words = {
        "".join(rng.choices(letters, k=rng.randint(3, MAX_BYTES))): ids_of(*range(at % MAX_IDS + 1))
        for at in range(30_000)
    }
    table = table_of(words)
    text = " ".join(["q", *words, "q"])
    missed = table.find([text])
    assert missed is not None
    assert len(missed[0]) < 50  # so few are left to be looked up elsewhere
    back = b"".join(run + words.get(part, b"") for run, part in missed[0])
    assert back == b"".join(words.values())
    assert table.copy().find([text]) == missed


def test_a_part_at_either_end_is_never_found() -> None:
    words = {"a": ids_of(1), "b": ids_of(2, 3)}
    texts = ["", "a", "a b", "a b a", " b a ", "b a b b q a a", "q"]
    assert table_of(words).find(texts) == expected(texts, words)


def test_texts_with_spaces_in_a_row_are_left_alone() -> None:
    assert WordTable().find(["a    b"]) is None


def test_what_is_too_long_is_not_kept() -> None:
    table = WordTable()
    table.add([("x" * 17, ids_of(1)), ("é" * 9, ids_of(1)), ("y", ids_of(*range(5))), ("z", b"")])
    text = " ".join(["q", "x" * 17, "x" * 16, "é" * 9, "é" * 8, "y", "z", "q"])
    assert table.find([text]) == expected([text], {})


def test_words_are_looked_up_while_others_are_added() -> None:
    words = {f"word{at}": ids_of(*[at] * (at % MAX_IDS + 1)) for at in range(4000)}
    table = WordTable()
    text = " ".join(["q", *words, "q"])
    adders = [
        threading.Thread(target=table.add, args=([*words.items()][:: 2 * each - 1],))
        for each in (0, 1)
    ]
    for thread in adders:
        thread.start()
    while any(thread.is_alive() for thread in adders):
        missed = table.find([text])
        assert missed is not None
        back = b"".join(run + words.get(part, b"") for run, part in missed[0])
        assert back == b"".join(words.values())
    for thread in adders:
        thread.join()
