"""A directory becomes a served model, on our own stack or on transformers, with its logits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from systone.config import ModelSettings
from systone.engine import Engine
from systone.errors import ConfigError, RequestError
from systone.models import registry
from systone.models.base import Loaded, Prepared
from systone.models.label.load import load_directory, recognises
from systone.models.label.options import LabelOptions
from systone.plan import Trie
from systone.protocol.types import Choice, ChoiceAnswer, Noul, NoulAnswer, Question, Request, Score

STATE = "The parcel from K\u00f6ln came crushed.\n\nIt holds 12 jars. "
COUNTS = (2, 3, 26, 27, 255)


def options_of(count: int) -> dict[str, str | None]:
    return {f"k{i}": f"o{i}" for i in range(count)}


def rows_of(trie: Trie) -> list[np.ndarray[Any, Any]]:
    """Each row's whole prompt."""
    starts = np.concatenate([[0], np.cumsum(trie.node_len)])
    rows = []
    for node in trie.row_node.tolist():
        path = []
        while node >= 0:
            path.append(trie.token_ids[starts[node] : starts[node + 1]])
            node = int(trie.node_parent[node])
        rows.append(np.concatenate(path[::-1]))
    return rows


def logits_of(directory: Path, rows: Sequence[np.ndarray[Any, Any]]) -> list[torch.Tensor]:
    """transformers' own FP32 logits after each prompt, read whole, without a cache."""
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    with torch.no_grad():
        return [
            model(torch.from_numpy(row.astype(np.int64))[None], use_cache=False).logits[0, -1]
            for row in rows
        ]


def run(loaded: Loaded, request: Request) -> tuple[Prepared, np.ndarray[Any, Any]]:
    prepared = loaded.adapter.prepare(request)
    (readout,) = loaded.executor.execute([prepared])
    assert not isinstance(readout, Exception), readout
    return prepared, readout.values


@pytest.mark.parametrize("backend", ["own", "transformers"])
def test_label_logits_equal_transformers_with_and_without_sharing(qwen: Path, backend: Any) -> None:
    questions: dict[str, Question] = {
        f"c{count}": Choice("Which?", options_of(count)) for count in COUNTS
    }
    request = Request(STATE, questions)
    expected: list[torch.Tensor] | None = None
    for policy in ("default", "off"):
        settings = ModelSettings(source=str(qwen), policy=policy, max_batch_tokens=16384)
        loaded = load_directory(qwen, settings, LabelOptions(preset="onejev", backend=backend))
        loaded.executor.start()
        prepared, values = run(loaded, request)
        expected = expected or logits_of(qwen, rows_of(prepared.work))
        columns = torch.tensor(loaded.adapter.labels.token_ids)  # type: ignore[attr-defined]
        wanted = torch.stack([row[columns] for row in expected]).numpy()
        assert wanted.std() > 0.1
        assert np.abs(values - wanted).max() <= 1e-3
        decision = loaded.adapter.finish(
            prepared,
            next(iter(loaded.executor.execute([prepared]))),  # type: ignore[arg-type]
        )
        for row, count in zip(wanted, COUNTS, strict=True):
            answer = decision.answers[f"c{count}"]
            assert isinstance(answer, ChoiceAnswer)
            shown = np.exp(row[:count] - row[:count].max())
            assert np.allclose(list(answer.probabilities.values()), shown / shown.sum(), atol=1e-3)
        loaded.executor.close()


def test_prompts_share_their_state_and_usage_counts_whole_prompts(qwen: Path) -> None:
    loaded = load_directory(qwen, ModelSettings(source=str(qwen)), LabelOptions())
    request = Request(STATE * 20, {"a": Noul("Is it late?"), "b": Noul("Is it broken?")})
    prepared = loaded.adapter.prepare(request)
    rows = rows_of(prepared.work)
    assert prepared.input_tokens == sum(row.size for row in rows)
    assert prepared.cost.tokens < 0.7 * prepared.input_tokens
    alone = loaded.adapter.prepare(replace(request, questions={"a": request.questions["a"]}))
    assert np.array_equal(rows_of(alone.work)[0], rows[0])


def test_question_ids_are_not_read_and_order_is_kept(llama: Path) -> None:
    loaded = load_directory(llama, ModelSettings(source=str(llama)), LabelOptions())
    loaded.executor.start()
    asked = Choice("Which?", {"z": "one", "a": "two", "m": None})
    first, values = run(loaded, Request(STATE, {"x": asked, "y": Score("How?", ["l", "m", "h"])}))
    _, others = run(loaded, Request(STATE, {"\u00fc": asked, "1": Score("How?", ["l", "m", "h"])}))
    assert np.array_equal(values, others)
    decision = loaded.adapter.finish(first, loaded.executor.execute([first])[0])  # type: ignore[arg-type]
    assert list(decision.answers) == ["x", "y"]
    answer = decision.answers["x"]
    assert isinstance(answer, ChoiceAnswer)
    assert list(answer.probabilities) == ["z", "a", "m"]
    assert sum(answer.probabilities.values()) == pytest.approx(1)
    loaded.executor.close()


def test_renaming_described_options_changes_nothing_in_our_own_format(llama: Path) -> None:
    described = {"record": "Start", "record_keep": "Keep it", "record_drop": "Delete it"}
    renamed = dict(zip(("k1", "k2", "k3"), described.values(), strict=True))
    for preset, equal in (("letters", True), ("onejev", False)):
        loaded = load_directory(llama, ModelSettings(source=str(llama)), LabelOptions(preset))
        first, second = (
            loaded.adapter.prepare(Request(STATE, {"q": Choice("Act?", criteria)}))
            for criteria in (described, renamed)
        )
        same = np.array_equal(rows_of(first.work)[0], rows_of(second.work)[0])
        assert same is equal


def test_serves_beside_the_embedded_model_in_one_engine(llama: Path, qwen: Path) -> None:
    models = [
        "systone-mini",
        *(load_directory(d, ModelSettings(source=str(d)), LabelOptions()) for d in (llama, qwen)),
    ]
    questions: dict[str, Question] = {"q": Noul("Is it broken?")}
    with Engine(models) as engine:
        names = [card.name for card in engine.cards]
        assert names == ["systone-mini", "llama", "base"]
        for name in names:
            decision = engine.decide(STATE, questions, model=name)
            assert decision.model == name
            answer = decision.answers["q"]
            assert isinstance(answer, NoulAnswer)
            assert 0 < answer.noul < 1


def test_card_states_limits_and_no_calibration(llama: Path, tmp_path: Path) -> None:
    card = load_directory(llama, ModelSettings(source=str(llama)), LabelOptions()).adapter.card
    assert (card.name, card.calibrated) == ("llama", False)
    assert (card.limits.max_options, card.limits.max_tokens) == (255, 8192)
    copy = Path(shutil.copytree(llama, tmp_path / "fitted"))
    (copy / "decision.json").write_text(
        json.dumps({"preset": "onejev", "calibrated": True, "temperature": {"noul": 2.0}})
    )
    fitted = load_directory(copy, ModelSettings(source=str(copy))).adapter.card
    assert fitted.calibrated
    assert "onejev" in fitted.description


def test_too_long_rows_are_refused_whole(llama: Path) -> None:
    settings = ModelSettings(source=str(llama), max_length=200)
    loaded = load_directory(llama, settings, LabelOptions(preset="decider"))
    loaded.adapter.prepare(Request("x" * 100, {"a": Noul("Is it?")}))
    with pytest.raises(RequestError) as refused:
        loaded.adapter.prepare(Request("x" * 300, {"a": Noul("Is it?")}))
    assert refused.value.code == "max_tokens_exceeded"
    with pytest.raises(ConfigError, match="8192 positions"):
        load_directory(llama, ModelSettings(source=str(llama), max_length=9000), LabelOptions())


def test_a_directory_is_recognised_by_its_files(llama: Path, qwen: Path, tmp_path: Path) -> None:
    assert recognises(llama)
    assert recognises(qwen)
    assert not recognises(qwen.parent)  # a package with its base
    assert not recognises(tmp_path)
    copy = Path(shutil.copytree(llama, tmp_path / "copy"))
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"architectures": ["BertModel"]}))
    assert not recognises(copy)


def test_own_stack_is_refused_for_other_models(llama: Path) -> None:
    with pytest.raises(ConfigError, match="'llama'"):
        load_directory(llama, ModelSettings(source=str(llama)), LabelOptions(backend="own"))


def test_broken_directories_give_one_line(llama: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(llama, tmp_path / "copy"))
    (copy / "tokenizer.json").write_text("{")
    with pytest.raises(ConfigError, match="copy"):
        load_directory(copy, ModelSettings(source=str(copy)), LabelOptions())


def test_missing_extras_are_named(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("systone.models.label.load.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"torch and transformers; install systone\[torch,lm\]"):
        load_directory(llama, ModelSettings(source=str(llama)), LabelOptions())


def test_the_registry_finds_the_family_and_its_settings_file(llama: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(llama, tmp_path / "copy"))
    (copy / "decision.json").write_text('{"preset": "anyjev"}')
    loaded = registry.load(str(copy), ModelSettings(source=str(copy)))
    assert "anyjev" in loaded.adapter.card.description
