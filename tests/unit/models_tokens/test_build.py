"""The built file itself: its entries, its merges, and what an encoder makes of each entry."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from systone.errors import ConfigError
from systone.models.qwen_tokens import QwenTokenizer, load_tokenizer
from systone.weights.synth import tokenizer_file
from systone.weights.synth.tokenizer_file import (
    ADDED_TOKENS,
    FILE_SHA256,
    build_tokenizer_json,
    tokenizer_config,
    tokenizer_json,
)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return dict(json.loads(tokenizer_json()))


def test_entries_and_added_tokens_fill_the_ids_without_a_gap(document: dict[str, Any]) -> None:
    assert sorted(document["model"]["vocab"].values()) == list(range(248_044))
    assert [t["id"] for t in document["added_tokens"]] == list(range(248_044, 248_077))
    assert len(ADDED_TOKENS) == 33
    assert not any(t["normalized"] for t in document["added_tokens"])


def test_merges_are_all_pairs_by_rising_rank(document: dict[str, Any]) -> None:
    vocab = document["model"]["vocab"]
    ranks = [vocab[left + right] for left, right in document["model"]["merges"]]
    assert ranks == sorted(ranks)
    assert len(ranks) == 500_709
    assert document["model"]["ignore_merges"] is False


@pytest.mark.slow
def test_exactly_201_entries_are_never_produced(
    document: dict[str, Any], tokenizer: QwenTokenizer
) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    model = document["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    bare = Tokenizer(BPE(vocab=model["vocab"], merges=merges))
    entries = sorted(model["vocab"], key=model["vocab"].__getitem__)
    found = bare.encode_batch_fast(entries)
    missed = [rank for rank, encoding in enumerate(found) if encoding.ids != [rank]]
    assert len(missed) == 201
    assert 196_502 in missed  # " Kaffee"


@pytest.mark.slow
def test_a_fresh_build_is_the_pinned_file() -> None:
    assert hashlib.sha256(build_tokenizer_json()).hexdigest() == FILE_SHA256


def test_a_spoiled_cache_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = tokenizer_json()
    monkeypatch.setattr(tokenizer_file.Path, "home", lambda: tmp_path)
    monkeypatch.setattr(tokenizer_file, "build_tokenizer_json", lambda: content)
    kept = tmp_path / ".cache" / "systone" / f"tokenizer-{FILE_SHA256[:16]}.json"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(content[:-1] + b" ")
    tokenizer_json.cache_clear()
    assert tokenizer_json() == content
    assert kept.read_bytes() == content
    assert [p.name for p in kept.parent.iterdir()] == [kept.name]


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        ("tokenizer_config.json", None, "no such file"),
        ("tokenizer_config.json", "[", "not a JSON object"),
        ("tokenizer_config.json", "[]", "not a JSON object"),
        ("tokenizer_config.json", '{"tokenizer_class": "LlamaTokenizer"}', "is unknown"),
        ("tokenizer.json", None, "no such file"),
        ("tokenizer.json", "{}", "not a tokenizer file"),
    ],
)
def test_what_cannot_be_loaded_is_named(
    tmp_path: Path, file: str, content: str | None, complaint: str
) -> None:
    (tmp_path / "tokenizer.json").write_text(small())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer_config("Qwen2Tokenizer")))
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_text(content)
    with pytest.raises(ConfigError, match=complaint) as refused:
        load_tokenizer(tmp_path)
    assert str(tmp_path / file) in str(refused.value)


@pytest.mark.parametrize(
    ("bend", "complaint"),
    [
        (lambda d: d["model"].update(ignore_merges=True), "ignore_merges is set"),
        (lambda d: d["model"].update(byte_fallback=True), "not plain byte-level BPE"),
        (lambda d: d["model"].update(dropout=0.5), "not plain byte-level BPE"),
        (lambda d: d.update(normalizer={"type": "NFKC"}), "not the normaliser"),
        (lambda d: d.update(pre_tokenizer=None), "not the normaliser"),
        (
            lambda d: d["pre_tokenizer"]["pretokenizers"][0].update(behavior="Removed"),
            "not the normaliser",
        ),
        (
            lambda d: d["pre_tokenizer"]["pretokenizers"][1].update(add_prefix_space=True),
            "not the normaliser",
        ),
        (lambda d: d["added_tokens"].append(added("<a b>")), "'<a b>' may reach across words"),
        (lambda d: d["added_tokens"].append(added("Mr.")), "'Mr.' may reach across words"),
        (lambda d: d["added_tokens"].append(added("<x>", rstrip=True)), "'<x>' may reach"),
    ],
)
def test_another_kind_of_tokenizer_is_refused(tmp_path: Path, bend: Any, complaint: str) -> None:
    document = json.loads(small())
    bend(document)
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "Qwen2Tokenizer"}')
    with pytest.raises(ConfigError, match=complaint):
        load_tokenizer(tmp_path)


def test_a_directory_that_names_no_class_is_read_as_transformers_reads_it(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(small())
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert load_tokenizer(tmp_path).tokenizer_class == "Qwen3_5Tokenizer"


def added(content: str, **changed: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": 3, "content": content, **flags, **changed}


@lru_cache(maxsize=1)
def small() -> str:
    """The built file with a vocabulary of two letters."""
    document = json.loads(tokenizer_json())
    document["model"].update(vocab={"a": 0, "b": 1, "ab": 2}, merges=[["a", "b"]])
    document["added_tokens"] = []
    return json.dumps(document)
