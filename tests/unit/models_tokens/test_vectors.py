from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from systone.models.qwen_tokens import QwenTokenizer, load_tokenizer

PREFIX = "<|im_start|>user\n"
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
STATE = (
    "A customer says: I was charged twice for one order. The service is working normally. "
    "There is no sign of unauthorized access."
)
TEAM = "Which team should handle this issue?"
URGENCY = "Assess the urgency using only the given evidence."


def candidate(state: str, question: str, answer: str) -> str:
    return (
        f"{PREFIX}Context:\n{state}\n\nQuestion: {question}\nProposed answer: {answer}\n"
        f"Is this proposed answer correct? Answer Yes or No.{SUFFIX}"
    )


def noul(state: str, question: str) -> str:
    return (
        f"{PREFIX}Context:\n{state}\n\nQuestion: {question}\n"
        f"Is the answer to this question yes? Answer Yes or No.{SUFFIX}"
    )


VECTOR_A = {
    candidate(STATE, TEAM, "billing: Problems with charges, invoices, refunds or payments."): 80,
    candidate(STATE, TEAM, "security: Unauthorized access or account compromise."): 76,
    candidate(STATE, TEAM, "technical: Service unavailable or a software malfunction."): 77,
    noul(STATE, "Does this message describe a duplicate charge?"): 66,
    candidate(
        STATE,
        URGENCY,
        "Routine: no service disruption or active security compromise is reported.",
    ): 82,
    candidate(STATE, URGENCY, "Urgent: an ongoing service disruption is reported."): 80,
    candidate(STATE, URGENCY, "Critical: active unauthorized access is reported."): 78,
}
VECTOR_B = (
    "248045,846,198,1905,25,198,74660,271,14162,25,19123,198,1941,18988,4087,25,1132,198,3742,411,"
    "10660,4087,4252,30,21134,7179,466,2233,13,248046,198,248045,74455,198,248068,271,248069,271"
)


@pytest.mark.parametrize("which", ["tokenizer", "file_tokenizer"])
def test_vector_a_has_its_lengths(which: str, request: pytest.FixtureRequest) -> None:
    tokenizer = request.getfixturevalue(which)
    lengths = [ids.size for ids in tokenizer.encode_batch(list(VECTOR_A))]
    assert lengths == list(VECTOR_A.values())
    assert sum(lengths) == 539


@pytest.mark.parametrize("which", ["tokenizer", "file_tokenizer"])
def test_vector_b_has_its_ids(which: str, request: pytest.FixtureRequest) -> None:
    tokenizer = request.getfixturevalue(which)
    ids = tokenizer.encode(candidate("Anything", "Pick", "only"))
    assert ids.tolist() == [int(i) for i in VECTOR_B.split(",")]
    assert ids.size == 38


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (" Kaffee", [710, 2562, 2059]),
        ("加拿大", [95984, 97048, 95779]),
        (" derrota", [2607, 298, 2481]),
        ("e\u0301", [933]),
        ("\u00e9", [933]),
        ("\n", [198]),
        ("\n\n", [271]),
        ("", []),
        ("<|im_start|>", [248045]),
        ("<|endoftext|>", [248044]),
        ("<|audio_pad|>", [248076]),
        ("<think></think>", [248068, 248069]),
    ],
)
def test_ids_under_both_patterns(
    tokenizer: QwenTokenizer, file_tokenizer: QwenTokenizer, text: str, ids: list[int]
) -> None:
    assert tokenizer.encode(text).tolist() == ids
    assert file_tokenizer.encode(text).tolist() == ids


def test_normalisation_stops_at_added_tokens(tokenizer: QwenTokenizer) -> None:
    ids = tokenizer.encode("<|im_end|>\u0338").tolist()
    assert ids[0] == 248046
    assert ids[1:] == tokenizer.encode("\u0338").tolist()


def test_the_class_decides_whether_marks_are_letters(
    tokenizer: QwenTokenizer, file_tokenizer: QwenTokenizer
) -> None:
    assert tokenizer.encode("हिन्दी").tolist() == [90703, 181077, 28640, 148651, 42201]
    assert file_tokenizer.encode("हिन्दी").tolist() == [215989, 150127, 177453]


@pytest.mark.parametrize("name", ["TokenizersBackend", "PreTrainedTokenizerFast"])
def test_a_generic_class_keeps_the_files_pattern(
    directory: Callable[[str], Path], file_tokenizer: QwenTokenizer, name: str
) -> None:
    loaded = load_tokenizer(directory(name))
    assert loaded.tokenizer_class == name
    assert loaded.pattern == file_tokenizer.pattern
    assert loaded.encode("हिन्दी").tolist() == [215989, 150127, 177453]


def test_batches_give_what_single_calls_give(tokenizer: QwenTokenizer) -> None:
    texts = ["", "a", "<|im_end|>x", "हिन्दी 123\n\n"]
    for ids, text in zip(tokenizer.encode_batch(texts), texts, strict=True):
        assert ids.dtype == np.int32
        assert np.array_equal(ids, tokenizer.encode(text))
    assert tokenizer.encode_batch([]) == []


def test_decoding_gives_the_text_back(tokenizer: QwenTokenizer) -> None:
    text = "<|im_start|>user\nक्या 加拿大?<|im_end|>"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.num_ids == 248_077
