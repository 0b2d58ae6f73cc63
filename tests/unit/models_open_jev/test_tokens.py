"""Prompts as ids: the contract's vectors, and pieces joined against whole strings."""

import random

import numpy as np
import pytest

from systone.errors import EngineFaultError
from systone.models.open_jev import OpenJevAdapter, OpenJevSettings
from systone.models.qwen_cuts import cut_text
from systone.protocol.types import Choice, Noul, Request, Score
from tests.unit.models_open_jev import hostile
from tests.unit.models_open_jev.conftest import CLASSES, NINE_B
from tests.unit.models_open_jev.vectors import (
    VECTOR_A,
    VECTOR_A_LENGTHS,
    VECTOR_A_USAGE,
    VECTOR_B,
    VECTOR_B_IDS,
    noul_prompt,
    option_prompt,
    row_cuts,
    row_ids,
)


def common_prefix(rows: list[list[int]]) -> int:
    return next(
        (i for i, ids in enumerate(zip(*rows, strict=False)) if len(set(ids)) > 1),
        min(map(len, rows)),
    )


@pytest.mark.parametrize("name", CLASSES)
def test_vector_a_has_the_contracts_lengths_usage_and_common_prefixes(tokenizers, name):
    prepared = OpenJevAdapter(NINE_B, tokenizers[name]).prepare(VECTOR_A)
    rows = [row_ids(prepared.work, row) for row in range(7)]
    assert [len(ids) for ids in rows] == VECTOR_A_LENGTHS
    assert list(prepared.work.row_len) == VECTOR_A_LENGTHS
    assert prepared.input_tokens == VECTOR_A_USAGE
    assert common_prefix(rows) == 35
    assert common_prefix(rows[:3]) == 47
    assert common_prefix(rows[4:]) == 49


def test_vector_a_is_cut_before_the_question_and_after_the_proposed_answer(adapter):
    trie = adapter.prepare(VECTOR_A).work
    assert [row_cuts(trie, row)[:2] for row in (0, 4)] == [[33, 14], [33, 16]]
    assert row_cuts(trie, 3) == [33, 33]
    assert adapter.prepare(VECTOR_A).cost.tokens == 33 + 14 + 16 + 33 + 33 + 29 + 30 + 33 + 31 + 29


@pytest.mark.parametrize("name", CLASSES)
def test_vector_b_gives_exactly_the_contracts_ids(tokenizers, name):
    prepared = OpenJevAdapter(NINE_B, tokenizers[name]).prepare(VECTOR_B)
    assert row_ids(prepared.work, 0) == VECTOR_B_IDS
    assert prepared.input_tokens == 38


def test_objects_and_arrays_render_as_sorted_python_json(adapter, tokenizer):
    state = {"z": [1.0, 1e16, -0.0, True, None, "猫"], "a": {"β": "z", "a": "first"}}
    request = Request(
        state,
        {
            "q": Choice(["b", {"d": 1e-05, "c": 2}], {"x": {"k": "\u2028\n"}, "y": None}),
            "n": Noul({"b": 1, "a": 2}, {"false": ["no"], "true": "yes"}),
            "s": Score("", ({"l": 0}, "high")),
        },
    )
    text = '{"a": {"a": "first", "β": "z"}, "z": [1.0, 1e+16, -0.0, true, null, "猫"]}'
    prompts = [
        option_prompt(text, '["b", {"c": 2, "d": 1e-05}]', 'x: {"k": "\u2028\\n"}'),
        option_prompt(text, '["b", {"c": 2, "d": 1e-05}]', "y"),
        noul_prompt(text, '{"a": 2, "b": 1}\nYes means: yes\nNo means: ["no"]'),
        option_prompt(text, "", '{"l": 0}'),
        option_prompt(text, "", "high"),
    ]
    trie = adapter.prepare(request).work
    for row, prompt in enumerate(prompts):
        assert row_ids(trie, row) == tokenizer.encode(prompt).tolist()


def hostile_requests(seed: int, count: int) -> list[tuple[Request, list[str]]]:
    """A request of one option and one Noul each, with the prompts it stands for."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        state, asked, option = (hostile.text(rng) for _ in range(3))
        request = Request(state, {"c": Choice(asked, {option: None}), "n": Noul(asked)})
        made.append((request, [option_prompt(state, asked, option), noul_prompt(state, asked)]))
    return made


def check_joined(adapter: OpenJevAdapter, tokenizer, cases: list[tuple[Request, list[str]]]):
    whole = iter(tokenizer.encode_batch([prompt for _, prompts in cases for prompt in prompts]))
    for request, prompts in cases:
        trie = adapter.prepare(request).work
        for row, prompt in enumerate(prompts):
            assert row_ids(trie, row) == next(whole).tolist(), prompt


@pytest.mark.parametrize("name", CLASSES)
def test_joined_pieces_equal_the_whole_prompts_ids_for_hostile_text(tokenizers, name):
    adapter = OpenJevAdapter(NINE_B, tokenizers[name])
    check_joined(adapter, tokenizers[name], hostile_requests(11, 1000))


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_joined_pieces_equal_the_whole_prompts_ids_for_50_000_hostile_texts(tokenizers, name):
    adapter = OpenJevAdapter(NINE_B, tokenizers[name])
    for seed in range(25):
        check_joined(adapter, tokenizers[name], hostile_requests(1000 + seed, 1000))


def check_cuts(tokenizer, texts: list[str], piece_chars: int) -> int:
    """The number of cuts made; asserts that none of them changed an id."""
    pieces = [cut_text(text, piece_chars) for text in texts]
    assert ["".join(parts) for parts in pieces] == texts
    apart = iter(tokenizer.encode_batch([part for parts in pieces for part in parts]))
    for text, parts, whole in zip(texts, pieces, tokenizer.encode_batch(texts), strict=True):
        joined = np.concatenate([next(apart) for _ in parts])
        assert joined.tolist() == whole.tolist(), text
    return sum(len(parts) - 1 for parts in pieces)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("piece_chars", [1, 5])
def test_cutting_long_text_never_changes_its_ids(tokenizers, name, piece_chars):
    rng = random.Random(5)
    texts = [hostile.text(rng, 60) for _ in range(200)]
    assert check_cuts(tokenizers[name], texts, piece_chars) > 200


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_cutting_long_text_never_changes_its_ids_in_50_000_hostile_texts(tokenizers, name):
    rng = random.Random(6)
    for _ in range(10):
        check_cuts(tokenizers[name], [hostile.text(rng, 24) for _ in range(5000)], 1)


def test_a_long_state_is_cut_into_pieces_and_gives_the_whole_prompts_ids(adapter, tokenizer):
    state = "\n".join(f"Line {i}: the quick brown fox, 12 times." for i in range(200))
    assert len(cut_text(state)) > 3
    trie = adapter.prepare(Request(state, {"n": Noul("Why?")})).work
    assert row_ids(trie, 0) == tokenizer.encode(noul_prompt(state, "Why?")).tolist()


def test_a_rows_segments_are_the_same_in_every_request_that_contains_it(adapter_with):
    rng = random.Random(3)
    for _ in range(60):
        state, asked = hostile.text(rng), hostile.text(rng)
        names = list(dict.fromkeys(hostile.text(rng) for _ in range(4)))
        company = {
            "a": Noul(hostile.text(rng)),
            "b": Choice(asked, dict.fromkeys(names)),
            "c": Score(asked, ("low", names[0])),
        }
        trie = adapter_with().prepare(Request(state, company)).work
        for at, name in enumerate(names):
            alone = adapter_with().prepare(Request(state, {"x": Choice(asked, {name: None})}))
            assert row_cuts(trie, 1 + at) == row_cuts(alone.work, 0)
            assert row_ids(trie, 1 + at) == row_ids(alone.work, 0)


class Wrong:
    """A tokenizer whose pieces differ from its whole strings."""

    def __init__(self, inner):
        self.inner = inner

    def encode(self, text):
        return self.inner.encode(text)

    def ids(self, texts):
        made = self.inner.ids(texts)
        return [
            ids[:-4] if text.startswith(" ") else ids for text, ids in zip(texts, made, strict=True)
        ]


def test_the_sampled_check_fails_a_request_whose_pieces_do_not_join(tokenizer):
    adapter = OpenJevAdapter(NINE_B, Wrong(tokenizer), OpenJevSettings(verify_every=2))
    adapter.prepare(VECTOR_B)
    with pytest.raises(EngineFaultError) as caught:
        adapter.prepare(VECTOR_B)
    assert caught.value.code == "tokenisation_mismatch"


def test_the_sampled_check_passes_what_joins(adapter_with):
    adapter = adapter_with(verify_every=1)
    for request, _ in hostile_requests(8, 50):
        adapter.prepare(request)
