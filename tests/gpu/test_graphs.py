"""Graphs of a full-width model of four layers: exact, bounded, and eager where they fail."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from scripts.gpu_suite.models import decision, recipe, served
from systone.execute.buckets import token_buckets
from systone.execute.gpu_pace import one_row
from systone.execute.gpu_runner import GpuLimits, GpuRunner
from systone.execute.graph_passes import GraphSettings
from systone.execute.graph_store import MISSES_BEFORE_RECAPTURE
from systone.execute.selfcheck_alone import alone
from systone.execute.selfcheck_rows import check_rows, pass_of
from systone.execute.selfcheck_start import StartSettings
from systone.kernels.gemm.gated_kernel import gated_kernel
from systone.kernels.gemm.kernel import gemm_descriptor_kernel
from systone.kernels.swiglu.triton import swiglu_kernel
from systone.nn.decision import DecisionModel

LIMITS = GpuLimits(tokens=4096, readouts=512)
GRAPHS = GraphSettings(tokens=1024)


@pytest.fixture(scope="module")
def model() -> DecisionModel:
    return decision(served(recipe("open-jev-9b", layers=4)))


def started(model: DecisionModel, graphs: GraphSettings | None, **settings) -> GpuRunner:
    made = GpuRunner(lambda _: model, "cuda", LIMITS, StartSettings(graphs, **settings))
    made.start()
    return made


@pytest.fixture(scope="module")
def graphed(model: DecisionModel) -> Iterator[GpuRunner]:
    made = started(model, GRAPHS)
    yield made
    made.close()


@pytest.fixture(scope="module")
def eager(model: DecisionModel) -> Iterator[GpuRunner]:
    made = started(model, None)
    yield made
    made.close()


def passes(vocabulary: int = 200_000) -> list:
    requests = check_rows(vocabulary)
    return [
        *(pass_of([rows], shared=True) for rows in requests),
        *(pass_of([[row]], shared=False) for row in requests[-1]),
        pass_of(requests[2:], shared=True),
    ]


def test_the_start_proves_everything(graphed: GpuRunner) -> None:
    check = graphed.describe()["selfcheck"]
    assert check["refused"] == 0, check
    assert graphed.proofs().m_invariant
    assert graphed.proofs().sharing
    assert graphed.describe()["launches"]["trunks"]["failed"] == 0


def test_replays_give_eager_bits_with_changed_and_returned_inputs(graphed, eager) -> None:
    made = passes()
    wanted = [eager.run(tables) for tables in made]
    before = graphed.describe()["launches"]["passes"].get("replayed", 0)
    for at in (*range(len(made)), *reversed(range(len(made)))):
        assert np.array_equal(graphed.run(made[at]), wanted[at])
    after = graphed.describe()["launches"]["passes"]["replayed"]
    assert after - before == 2 * len(made)


def test_two_passes_in_flight_keep_their_scores(graphed, eager) -> None:
    first, second = passes()[:2]
    a, b, c = (graphed.submit(tables) for tables in (first, second, first))
    assert np.array_equal(c.take(), eager.run(first))
    assert np.array_equal(b.take(), eager.run(second))
    assert np.array_equal(a.take(), eager.run(first))


def test_a_pass_no_bucket_holds_runs_eagerly_and_exactly(graphed, eager) -> None:
    whole = pass_of(check_rows(200_000), shared=False)
    assert whole.num_tokens > 1024
    count = graphed.describe()["launches"]["passes"].get("tokens over", 0)
    assert np.array_equal(graphed.run(whole), eager.run(whole))
    assert graphed.describe()["launches"]["passes"]["tokens over"] == count + 1


def test_eviction_and_capturing_again_are_exact(graphed, eager) -> None:
    tables = passes()[-1]
    graphed.run(tables)
    trunks = graphed._passes.trunks
    key = next(reversed(trunks._held))
    trunks.evict(key)
    for _ in range(MISSES_BEFORE_RECAPTURE + 2):
        assert np.array_equal(graphed.run(tables), eager.run(tables))
    assert key in trunks


def test_a_capture_that_fails_leaves_exact_eager_passes(model, eager, monkeypatch) -> None:
    trunk = type(eager._passes.split).trunk

    def synchronises(self, tables) -> None:
        trunk(self, tables)
        if torch.cuda.is_current_stream_capturing():
            torch.cuda.synchronize()  # what no capture allows

    monkeypatch.setattr(type(eager._passes.split), "trunk", synchronises)
    broken = started(model, GraphSettings(tokens=128))
    told = broken.describe()["launches"]["trunks"]
    assert (told["graphs"], told["failed"]) == (0, 4)
    tables = passes()[-1]
    assert np.array_equal(broken.run(tables), eager.run(tables))
    broken.close()


def test_no_kernel_is_compiled_after_the_start(graphed) -> None:
    for tables in (*passes(), *alone(passes()[0])):
        graphed.run(tables)
    assert graphed.describe()["compilations_since_ready"] == 0, graphed._compiles.names


def test_no_product_is_compiled_while_serving_without_graphs(model) -> None:
    """Even if nothing is loaded when a start finds its verdicts kept."""
    for kernel in (gemm_descriptor_kernel, gated_kernel, swiglu_kernel):
        kernel.device_caches.clear()
    made = started(model, None)
    assert made.describe()["selfcheck"]["products_from_cache"]
    for tokens in token_buckets(LIMITS.tokens):
        made.run(one_row(tokens, 200_000))
    assert made.describe()["compilations_since_ready"] == 0, made._compiles.names
    made.close()


def test_graphs_are_bounded_in_count(model) -> None:
    few = started(model, GraphSettings(tokens=1024, max_count=3))
    assert few.describe()["launches"]["trunks"]["graphs"] == 3
    assert few.describe()["launches"]["trunks"]["captured"] >= 3
    assert {key[0] for key in few._passes.trunks._held} <= set(few._passes.buckets)
    few.close()
