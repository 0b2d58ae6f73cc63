"""Words met before are looked up: the ids are those of the whole text, warm, cold and full."""

from __future__ import annotations

import random
import string
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systone.models.qwen_tokens import load_tokenizer
from systone.models.word_memo import WordMemo
from systone.models.word_pieces import MAX_CHARS
from systone.models.word_split import pieces_of, resolve
from tests.unit.models_tokens.hostile import PIECES, hostile_texts


class Spelling:
    """A tokenizer of one id a character that counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode_apart(self, texts):
        self.asked += texts
        return [np.array([ord(c) for c in text], np.int32) for text in texts]

    def encode_whole(self, texts):
        return [(ids, np.arange(ids.size, dtype=np.int32)) for ids in self.encode_apart(texts)]


def spelt(ids) -> str:
    return "".join(map(chr, ids))


@pytest.mark.parametrize("name", ["Qwen2Tokenizer", "Qwen3_5Tokenizer"])
def test_ids_are_those_of_the_whole_text_cold_and_warm(
    directory: Callable[[str], Path], name: str
) -> None:
    tokenizer = load_tokenizer(directory(name))
    texts = [*PIECES, *hostile_texts(300, seed=11)]
    texts += [f"{a} word {b} again\n{a}" for a, b in pairwise(texts)]
    whole = [tokenizer.encode(text).tolist() for text in texts]
    for _ in range(2):
        assert [ids.tolist() for ids in tokenizer.encode_batch(texts)] == whole
    assert [tokenizer.encode_batch([text])[0].tolist() for text in texts] == whole


def test_a_new_text_teaches_its_words_and_a_new_word_is_asked_for_alone() -> None:
    spelling = Spelling()
    memo = WordMemo(spelling)
    first, second = "one two three four five", "one two five four three four extra five"
    for text in (first, second, first, second):
        assert spelt(memo.encode([text])[0]) == text
    assert spelling.asked == [first, " extra"]


def test_words_are_not_learnt_from_text_a_normaliser_may_change() -> None:
    spelling = Spelling()
    memo = WordMemo(spelling)
    memo.encode(["caf\u0065\u0301 one two three"])
    assert len(memo) == 0


def test_the_empty_text_has_no_ids() -> None:
    memo = WordMemo(Spelling())
    for _ in range(2):
        assert [ids.size for ids in memo.encode(["", "a", ""])] == [0, 1, 0]


def test_a_full_memo_starts_anew_and_stays_bounded() -> None:
    memo = WordMemo(Spelling(), max_pieces=5)
    for text in ("a b c", "d e f", "a d", "a b c d e f g h i"):
        assert spelt(memo.encode([text])[0]) == text
        assert len(memo) <= 5


def test_what_was_taught_outlives_a_full_memo() -> None:
    spelling = Spelling()
    memo = WordMemo(spelling, max_pieces=3)
    memo.teach([" north", "north", " south"])
    for text in ("a b c", "d e f", "g h i"):
        assert spelt(memo.encode([text])[0]) == text
        assert len(memo) <= 6
    spelling.asked.clear()
    assert spelt(memo.encode(["north south north"])[0]) == "north south north"
    assert spelling.asked == []


def test_new_compounds_of_known_words_are_not_asked_for() -> None:
    spelling = Spelling()
    memo = WordMemo(spelling)
    memo.teach(["two", " three", "three", " four", ":", ",", "?\n", ".\n\n", "\n"])
    spelling.asked.clear()
    texts = ("two: three, four?\nthree four.\n\n", " three: four\n", "two four\n", "", " three")
    for text in texts:
        assert spelt(memo.encode([text])[0]) == text
    assert spelling.asked == []
    assert spelt(memo.encode(["two: three; four"])[0]) == "two: three; four"
    assert spelling.asked == [";"]


def test_ids_as_bytes_are_those_of_the_arrays() -> None:
    memo = WordMemo(Spelling())
    texts = ["a b", "", " a", "b.\n", "a  b"]
    arrays = memo.encode(texts)
    assert memo.ids(texts) == [ids.tobytes() for ids in arrays]


def test_long_parts_are_not_kept() -> None:
    memo = WordMemo(Spelling())
    long = "x" * (MAX_CHARS + 1)
    assert spelt(memo.encode([f"{long} y"])[0]) == f"{long} y"
    assert len(memo) == 1


def test_threads_that_fill_it_at_once_get_their_own_texts() -> None:
    memo = WordMemo(Spelling(), max_pieces=8)
    wrong: list[str] = []

    def work(seed: int) -> None:
        for i in range(300):
            text = " ".join(chr(97 + (seed * 7 + i * k) % 26) for k in range(1, 6))
            if spelt(memo.encode([text])[0]) != text:
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("name", ["Qwen2Tokenizer", "Qwen3_5Tokenizer"])
def test_words_apart_have_the_ids_of_the_tokenizer(
    directory: Callable[[str], Path], name: str
) -> None:
    tokenizer = load_tokenizer(directory(name))
    rng = random.Random(8)
    letters = string.ascii_letters
    words = ["".join(rng.choices(letters, k=rng.randint(1, 20))) for _ in range(1500)]
    entries = [tokenizer.backend.id_to_token(rng.randrange(248_000)) for _ in range(1500)]
    words += [word for entry in entries if (word := entry.replace("Ġ", "")).isalpha()]
    texts = [rng.choice(["", " "]) + word for word in [*words, "Kaffee", "derrota", "a1", "", " "]]
    apart = tokenizer.memo._encoder.encode_apart(texts)
    assert [ids.tolist() for ids in apart] == [tokenizer.encode(text).tolist() for text in texts]


ALPHABET = [
    "a",
    "B",
    "7",
    ".",
    "\u0301",
    "é",
    "ß",
    "ж",
    "界",
    " ",
    " ",
    "  ",
    "\n",
    "\n\n",
    "\t",
    "\r\n",
]
ALPHABET += [",", ":", "?\n", "!", ".\n\n", ";", "word", "Word", "\nWord", "_", "<think>"]
ALPHABET += ["\u00a0", "\u2028", "<|im_end|>", "'s", "(", "\U0001f600"]


@pytest.mark.parametrize("name", ["Qwen2Tokenizer", "Qwen3_5Tokenizer"])
def test_spaces_and_line_ends_of_every_kind_are_cut_where_the_pattern_ends(
    directory: Callable[[str], Path], name: str
) -> None:
    tokenizer = load_tokenizer(directory(name))
    tokenizer.learn_common_words()

    @settings(max_examples=600, deadline=None)
    @given(st.lists(st.sampled_from(ALPHABET), max_size=14).map("".join))
    def check(text: str) -> None:
        assert "".join(pieces_of(text)) == text
        whole = tokenizer.encode(text).tolist()
        for _ in range(2):
            assert tokenizer.encode_batch([text])[0].tolist() == whole

    check()


def test_a_new_word_between_known_ones_is_found_alone() -> None:
    known = {"the": b"1", "cat": b"2", "sat": b"3"}
    for text in (
        "the red cat",
        "the  cat sat",
        " the cat",
        "cat \n sat",
        "sat the ",
        "cat a\nb sat",
    ):
        parts = text.split(" ")
        found = resolve(parts, [known.get(part) for part in parts])
        back = {b"1": "the", b"2": "cat", b"3": "sat", b"": ""}
        spelt_out = ""
        for each in found:
            if isinstance(each, bytes):
                words = [back[each[i : i + 1]] for i in range(len(each))]
                spelt_out += "".join(f" {w}" if spelt_out or i else w for i, w in enumerate(words))
            else:
                spelt_out += each
        assert spelt_out == text
