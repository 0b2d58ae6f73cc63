"""Our engine against what transformers and PEFT gave on the same tiny checkpoints.

The golden files carry token ids, hidden states, logits and answers, so that neither library is
needed here; `python -m oracles.refresh tests/golden` writes them anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from systone.config import ModelSettings
from systone.models.open_jev.load import serve_weights
from systone.nn.decision import DecisionModel
from systone.nn.device_tables import DeviceTables
from systone.protocol import systemone
from systone.protocol.types import Answer, ChoiceAnswer, NoulAnswer
from tests.golden.conftest import REQUESTS
from tests.numerics import (
    FP32_HIDDEN_REL_L2,
    FP32_LOGIT_ABS,
    GOLDEN_ANSWER_ABS,
    GOLDEN_BF16_OF_NOISE,
)
from tests.unit.nn.naive_tables import naive_tables

pytestmark = pytest.mark.slow  # a tiny checkpoint has the real vocabulary


@pytest.fixture(scope="module")
def models(served) -> Callable[[torch.dtype], DecisionModel]:
    return cache(lambda dtype: DecisionModel.build(served, dtype=dtype))


def run(model: DecisionModel, rows: list[dict[str, Any]], *, shared: bool) -> tuple[Tensor, Tensor]:
    """Read-outs and scores of the golden rows, cut after their common first tokens."""
    ids = [row["ids"] for row in rows]
    common = min(len(i) for i in ids) - 1
    while any(i[:common] != ids[0][:common] for i in ids):
        common -= 1
    paths = [[i[:common], i[common:]] for i in ids]
    tables = DeviceTables.of(naive_tables([paths], shared=shared))
    with torch.inference_mode():
        return model.stack.readouts(tables).float(), model.scores(tables)[:, 0]


def logits(golden: dict[str, Any]) -> Tensor:
    return torch.tensor([row["logit"] for row in golden["rows"]], dtype=torch.float64)


@pytest.mark.parametrize("shared", [True, False])
def test_fp32_equals_the_merged_oracle(models, golden, package, request_name, shared) -> None:
    expected = golden(package, "fp32", request_name)
    hidden, scores = run(models(torch.float32), expected["rows"], shared=shared)
    truth = torch.tensor([row["hidden"] for row in expected["rows"]])
    assert ((hidden - truth).norm(dim=1) / truth.norm(dim=1)).max() <= FP32_HIDDEN_REL_L2
    assert (scores - logits(expected)).abs().max() <= FP32_LOGIT_ABS


def test_bf16_is_as_near_as_the_official_paths(models, golden, package) -> None:
    """Merged bf16 and the unmerged official reference differ from FP32 by noise; so do we. Over
    the rows of all requests: a single row's logit may be right by chance."""
    ours, official = [], []
    for name in REQUESTS:
        exact, *noisy = (golden(package, mode, name) for mode in ("fp32", "bf16", "unmerged"))
        _, scores = run(models(torch.bfloat16), exact["rows"], shared=True)
        ours.append(scores - logits(exact))
        official += [logits(each) - logits(exact) for each in noisy]
    noise = torch.cat(official).abs().max()
    assert torch.cat(ours).abs().max() <= GOLDEN_BF16_OF_NOISE * noise


def test_a_request_is_answered_as_by_the_oracle(served, golden, package, request_name) -> None:
    """The whole way: prompt, tokens, trie, pass, head, calibration, answer."""
    expected = golden(package, "fp32", request_name)
    settings = ModelSettings(device="cpu", dtype="float32")
    copied = replace(served, tensors=dict(served.tensors))  # the executor takes them over
    loaded = serve_weights(copied, settings, release_date="2026-01-31")
    loaded.executor.start()
    request = systemone.parse(json.dumps(expected["request"]).encode(), dialect="default")
    prepared = loaded.adapter.prepare(request)
    (readout,) = loaded.executor.execute([prepared])
    decision = loaded.adapter.finish(prepared, readout)
    assert decision.usage.input_tokens == expected["usage"]["input_tokens"]
    assert list(decision.answers) == list(expected["answers"])
    for name, answer in decision.answers.items():
        check(answer, expected["answers"][name])


def check(answer: Answer, expected: dict[str, Any]) -> None:
    def near(value: Any) -> Any:
        return pytest.approx(value, abs=GOLDEN_ANSWER_ABS, rel=0)

    assert answer.kind == expected["type"]
    if isinstance(answer, NoulAnswer):
        assert answer.noul == near(expected["noul"])
        return
    shares = answer.probabilities
    if isinstance(answer, ChoiceAnswer):
        assert answer.choice == expected["choice"]
        assert dict(shares) == near(expected["probabilities"])
    else:
        assert answer.score == near(expected["score"])
        assert list(shares) == near(list(expected["probabilities"].values()))
        assert list(answer.legend) == list(expected["legend"].values())
    assert answer.confidence == near(expected["confidence"])


def test_headers_name_the_revision(golden, package, request_name) -> None:
    for mode in ("fp32", "bf16", "unmerged"):
        header = golden(package, mode, request_name)["header"]
        assert header["mode"] == mode
        assert header["gated_delta_rule"] == "torch"
        assert header["libraries"]["transformers"] == "5.17.0"
        assert all(len(digest) == 64 for digest in header["files"].values())
