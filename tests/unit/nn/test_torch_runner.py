"""The plain torch runner: scores in read-out order, its life, and what it reports."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
import torch

from systone.errors import ConfigError, EngineDownError
from systone.execute.base import PassRunner
from systone.execute.torch_runner import TorchRunner, exact_products
from systone.nn.config import TextConfig
from systone.nn.decision import DecisionModel
from tests.unit.nn.naive_tables import naive_tables
from tests.unit.nn.tiny import Checkpoint, random_ids, tiny_json


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return Checkpoint.of(TextConfig.from_json(tiny_json("9b", layers=4)), seed=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scores_come_in_readout_order(checkpoint: Checkpoint, dtype: torch.dtype) -> None:
    rng = random.Random(1)
    rows = [[random_ids(rng, n)] for n in (5, 70, 3)]
    runner: PassRunner = TorchRunner(
        lambda device: DecisionModel.build(checkpoint, dtype=dtype, device=device)
    )
    runner.start()
    together = runner.run(naive_tables([rows]))
    assert together.dtype == np.float32
    assert together.shape == (3, 1)
    alone = np.concatenate([runner.run(naive_tables([[row]])) for row in rows])
    assert np.allclose(together, alone, atol=1e-4 if dtype == torch.float32 else 0.1)
    assert len(set(np.round(together[:, 0], 3).tolist())) == 3
    described = runner.describe()
    assert described["dtype"] == str(dtype).removeprefix("torch.")
    assert set(described["operators"].values()) == {"reference"}


def test_a_runner_works_on_another_thread_than_it_started_on(checkpoint: Checkpoint) -> None:
    runner = TorchRunner.of(DecisionModel.build(checkpoint, dtype=torch.float32))
    runner.start()
    tables, found = naive_tables([[[[1, 2, 3]]]]), []
    thread = threading.Thread(target=lambda: found.append(runner.run(tables)))
    thread.start()
    thread.join()
    assert np.array_equal(found[0], runner.run(tables))


def test_an_input_that_returns_gives_the_same_bits(checkpoint: Checkpoint) -> None:
    runner = TorchRunner.of(DecisionModel.build(checkpoint, dtype=torch.bfloat16))
    runner.start()
    first, other = (naive_tables([[[[seed] * 40, [7, 8]], [[seed] * 40, [9]]]]) for seed in (1, 2))
    before, between, after = (runner.run(tables) for tables in (first, other, first))
    assert np.array_equal(before, after)
    assert not np.array_equal(before, between)


def test_a_runner_that_is_not_running_says_so(checkpoint: Checkpoint) -> None:
    runner = TorchRunner.of(DecisionModel.build(checkpoint, dtype=torch.float32))
    with pytest.raises(EngineDownError):
        runner.run(naive_tables([[[[1]]]]))
    runner.start()
    runner.close()
    with pytest.raises(EngineDownError):
        runner.run(naive_tables([[[[1]]]]))


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_missing_device_stops_the_start(checkpoint: Checkpoint) -> None:
    runner = TorchRunner(
        lambda device: DecisionModel.build(checkpoint, dtype=torch.float32, device=device), "cuda"
    )
    with pytest.raises(ConfigError, match="cuda is not available"):
        runner.start()


def test_process_wide_switches_are_put_back() -> None:
    flags = torch.backends.cuda.matmul
    before = flags.allow_tf32, flags.allow_bf16_reduced_precision_reduction
    flags.allow_tf32 = True
    try:
        with exact_products(torch.device("cuda")):
            assert flags.allow_tf32 is False
            assert flags.allow_bf16_reduced_precision_reduction is False
        assert flags.allow_tf32 is True
        assert flags.allow_bf16_reduced_precision_reduction == before[1]
    finally:
        flags.allow_tf32 = before[0]
