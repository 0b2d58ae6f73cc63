"""Our engine against what transformers and PEFT gave on the same tiny Kevs, two sizes and seeds.

`python -m oracles.kev_refresh tests/golden` writes the files anew.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from systone.config import ModelSettings
from systone.models.kev.load import serve_weights
from systone.nn.device_tables import DeviceTables
from systone.nn.pointer_model import PointerModel
from systone.plan import PassBudget, build_tables, cut_passes
from systone.protocol import systemone
from systone.protocol.kev import answer_object
from systone.protocol.rules import WireLimits
from systone.weights.synth import synthesize_served
from tests.numerics import FP32_HIDDEN_REL_L2, FP32_LOGIT_ABS, GOLDEN_ANSWER_ABS

pytestmark = pytest.mark.slow  # a tiny checkpoint has the real vocabulary

NAMES = sorted(p.stem for p in (Path(__file__).parent / "kev_requests").glob("*.json"))
RULES = {"merged": "single-rounding", "unmerged": "unrounded"}
ROOMY = PassBudget(tokens=10**6, rows=10**6, states=10**6)


@pytest.fixture(scope="module", params=["kev-4b", "kev-0.8b"])
def package(request) -> str:
    return request.param


@pytest.fixture(scope="module", params=["merged", "unmerged"])
def mode(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def served(package, mode, golden, tokenizer_directory):
    seed = golden(package, mode, NAMES[0])["header"]["seed"]
    return synthesize_served(
        package, "tiny", seed, merge=RULES[mode], tokenizer=tokenizer_directory
    )


@pytest.fixture(scope="module")
def loaded(served):
    settings = ModelSettings(device="cpu", dtype="float32")
    copied = replace(served, tensors=dict(served.tensors))
    made = serve_weights(copied, settings, release_date="2026-01-31")
    made.executor.start()
    yield made
    made.executor.close()


@pytest.fixture(params=NAMES)
def expected(request, golden, package, mode):
    return golden(package, mode, request.param)


def parsed(expected):
    limits = WireLimits(max_levels=255)
    data = json.dumps(expected["request"]).encode()
    return systemone.parse(data, dialect="kev", limits=limits)


def test_token_ids_and_read_outs_are_the_oracles(loaded, expected) -> None:
    trie = loaded.adapter.prepare(parsed(expected)).work
    (parts,) = cut_passes([trie], ROOMY)
    tables = build_tables(parts)
    rows = [[] for _ in expected["rows"]]
    for readout, row in enumerate(tables.readout_row.tolist()):
        rows[row].append(int(tables.positions[tables.readout_token[readout]]))
    assert rows == [row["readouts"] for row in expected["rows"]]
    for row, node in enumerate(trie.row_node.tolist()):
        starts = np.concatenate([[0], np.cumsum(trie.node_len)])
        parent = trie.node_parent[node]
        assert trie.token_ids[starts[parent] : starts[parent + 1]].tolist() == expected["state"]
        branch = trie.token_ids[starts[node] : starts[node + 1]].tolist()
        assert branch == expected["rows"][row]["ids"]


def test_hidden_states_are_the_oracles(served, loaded, expected) -> None:
    model = PointerModel.build(served, dtype=torch.float32)
    (parts,) = cut_passes([loaded.adapter.prepare(parsed(expected)).work], ROOMY)
    with torch.inference_mode():
        hidden = model.stack.readouts(DeviceTables.of(build_tables(parts)))
    truth = torch.tensor([h for row in expected["rows"] for h in row["hidden"]])
    assert ((hidden - truth).norm(dim=1) / truth.norm(dim=1)).max() <= FP32_HIDDEN_REL_L2


def test_a_request_is_answered_as_by_the_oracle(loaded, expected) -> None:
    """The whole way: text, tokens, trie, pass, head, calibration, answer."""
    prepared = loaded.adapter.prepare(parsed(expected))
    (readout,) = loaded.executor.execute([prepared])
    decision = loaded.adapter.finish(prepared, readout)
    assert decision.usage.input_tokens == expected["usage"]["input_tokens"]
    assert list(decision.answers) == list(expected["answers"])
    for row in expected["rows"]:
        ours = decision.extras["logits"][row["question"]]
        assert np.abs(np.array(ours) - row["logits"]).max() <= FP32_LOGIT_ABS
    for name, answer in decision.answers.items():
        close(answer_object(answer), expected["answers"][name])


def close(ours, theirs) -> None:
    """Equal shapes, orders and texts; numbers within the bound and a step of the last decimal."""
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            close(ours[key], theirs[key])
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, abs=GOLDEN_ANSWER_ABS + 1e-4, rel=0)
    else:
        assert ours == theirs
