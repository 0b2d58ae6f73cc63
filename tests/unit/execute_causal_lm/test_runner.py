"""Passes on a transformers model: the model's own logits, the same bits shared or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from systone.errors import ConfigError, EngineDownError
from systone.execute.causal_lm import CausalLm
from systone.execute.causal_lm_runner import CausalLmRunner
from systone.plan import Part, PassTables, Row, Segment, Sharing, Trie, build_tables, build_trie

CPU = torch.device("cpu")
COLUMNS = (5, 1700, 33, 6)
RNG = np.random.default_rng(8)
STATE, ASK = (Segment.of(RNG.integers(0, 1600, n)) for n in (40, 3))
TAILS = [Segment.of(RNG.integers(0, 1600, n)) for n in (1, 7, 19)]
# rows of two and of three segments, one that ends where others go on, and a row of its own
ROWS = [
    Row((STATE, TAILS[0]), 0),
    Row((STATE, ASK, TAILS[1]), 1),
    Row((STATE, ASK), 2),
    Row((STATE, ASK, TAILS[2]), 3),
    Row((TAILS[2],), 4),
]


def tables_of(trie: Trie) -> PassTables:
    return build_tables([Part(0, np.arange(trie.num_rows, dtype=np.int32), trie)])


def started(directory: Path, dtype: torch.dtype = torch.float32) -> CausalLmRunner:
    runner = CausalLmRunner(CausalLm(directory, CPU, dtype), COLUMNS)
    runner.start()
    return runner


def own_logits(directory: Path, row: Row) -> np.ndarray[Any, Any]:
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    ids = torch.from_numpy(np.concatenate([s.tokens for s in row.path]).astype(np.int64))
    with torch.no_grad():
        logits = model(ids[None], use_cache=False).logits[0, -1, list(COLUMNS)]
    return np.asarray(logits.numpy())


@pytest.mark.parametrize("name", ["llama", "gemma"])
def test_logits_are_the_models_own_and_sharing_moves_no_bit(
    name: str, request: pytest.FixtureRequest
) -> None:
    directory: Path = request.getfixturevalue(name)
    runner = started(directory)
    assert runner.proofs().sharing is True
    trie = build_trie(ROWS, Sharing())
    assert trie.load.tokens < trie.unshared().load.tokens
    shared = runner.run(tables_of(trie))
    alone = runner.run(tables_of(trie.unshared()))
    single = [runner.run(tables_of(build_trie([row], Sharing())))[0] for row in ROWS]
    assert np.array_equal(shared, alone)
    assert np.array_equal(shared, np.stack(single))
    wanted = np.stack([own_logits(directory, row) for row in ROWS])
    assert wanted.std() > 0.1
    assert np.abs(shared - wanted).max() < 1e-4
    runner.close()


def test_a_soft_cap_is_the_models_own(gemma: Path, uncapped_gemma: Path) -> None:
    tables = tables_of(build_trie(ROWS, Sharing()))
    capped, free = (started(d).run(tables) for d in (gemma, uncapped_gemma))
    assert np.abs(free).max() > 3
    assert np.allclose(capped, 3 * np.tanh(free / 3), atol=1e-4)


def test_a_cache_that_drops_its_past_is_noticed_and_rows_are_read_whole(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = CausalLm._forward

    def forgetful(self: CausalLm, ids: Any, past: Any, **options: Any) -> Any:
        return forward(self, ids, None, **options)

    monkeypatch.setattr(CausalLm, "_forward", forgetful)
    runner = started(llama)
    assert runner.proofs().sharing is False
    assert runner.describe()["continues_its_cache"] is False
    values = runner.run(tables_of(build_trie(ROWS, Sharing()).unshared()))
    wanted = np.stack([own_logits(llama, row) for row in ROWS])
    assert np.abs(values - wanted).max() < 1e-4


def test_bf16_is_served_and_said(llama: Path) -> None:
    runner = started(llama, torch.bfloat16)
    assert runner.describe()["dtype"] == "bfloat16"
    assert runner.proofs().sharing is True
    assert np.isfinite(runner.run(tables_of(build_trie(ROWS, Sharing())))).all()


def test_a_label_beyond_the_models_logits_is_refused(llama: Path) -> None:
    runner = CausalLmRunner(CausalLm(llama, CPU, torch.float32), (5, 4000))
    with pytest.raises(ConfigError, match="4000"):
        runner.start()


def test_faults_of_files_and_of_use_are_plain(llama: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't load"):
        CausalLm(tmp_path, CPU, torch.float32).start()
    runner = CausalLmRunner(CausalLm(llama, CPU, torch.float32), COLUMNS)
    with pytest.raises(EngineDownError):
        runner._model.whole(np.zeros(1, np.int64))
