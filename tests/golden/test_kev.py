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
from systone.models.kev.answers import probabilities
from systone.models.kev.load import serve_weights
from systone.nn.device_tables import DeviceTables
from systone.nn.pointer_model import PointerModel
from systone.plan import PassBudget, build_tables, cut_passes
from systone.protocol import systemone
from systone.protocol.kev import answer_object
from systone.protocol.rules import WireLimits
from systone.weights.merge import Difference, compare
from systone.weights.synth import synthesize_served
from tests.numerics import (
    FP32_HIDDEN_REL_L2,
    FP32_LOGIT_ABS,
    GOLDEN_ANSWER_ABS,
    KEV_HEAD_ABS,
    KEV_MERGE_CANCELLED_ABS,
    KEV_MERGE_DIFFERING,
    KEV_MERGE_NOISE_LOGIT_ABS,
    MUTATION_FACTOR,
)
from tests.unit.nn.mutations import MUTATIONS

pytestmark = pytest.mark.slow  # a tiny checkpoint has the real vocabulary

NAMES = sorted(p.stem for p in (Path(__file__).parent / "kev_requests").glob("*.json"))
RULES = {"merged": "single-rounding", "unmerged": "unrounded"}
ROOMY = PassBudget(tokens=10**6, rows=10**6, states=10**6)


def swap_halves(model, hidden, query):
    """Queries by the keys' projection and the other way round."""
    weight = torch.cat(model.head_weight.chunk(2)[::-1])
    bias = torch.cat(model.head_bias.chunk(2)[::-1])
    return replace(model, head_weight=weight, head_bias=bias).point(hidden, query)


FAULTS = {
    "q and k swapped": swap_halves,
    "unscaled": lambda model, hidden, query: 16 * model.point(hidden, query),
    "no bias": lambda model, hidden, query: replace(
        model, head_bias=torch.zeros_like(model.head_bias)
    ).point(hidden, query),
    "another row's question": lambda model, hidden, query: model.point(
        hidden, (query + 1).clamp(max=len(query) - 1)
    ),
    "bf16 head": lambda model, hidden, query: replace(
        model, head_weight=model.head_weight.bfloat16().float()
    ).point(hidden.bfloat16(), query),
}


@pytest.fixture(scope="module", params=["kev-4b", "kev-0.8b"])
def package(request) -> str:
    return request.param


@pytest.fixture(scope="module", params=["merged", "unmerged"])
def mode(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def ours(package, mode, golden, tokenizer_directory):
    """The checkpoint as we merge it."""
    seed = golden(package, mode, NAMES[0])["header"]["seed"]
    return synthesize_served(
        package, "tiny", seed, merge=RULES[mode], tokenizer=tokenizer_directory
    )


@pytest.fixture(scope="module")
def served(ours, package, mode, golden):
    """The checkpoint as PEFT merged it for the golden files."""
    if mode == "unmerged":
        return ours
    tensors = dict(ours.tensors)
    for name, words in golden(package, "merge")["weights"].items():
        tensor = tensors[name].clone()
        places, values = torch.tensor(words).T
        tensor.view(-1).view(torch.int16)[places] = values.to(torch.int16)
        tensors[name] = tensor
    return replace(ours, tensors=tensors)


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


@pytest.fixture(scope="module")
def model(served) -> PointerModel:
    return PointerModel.build(served, dtype=torch.float32)


def tables_of(loaded, expected) -> DeviceTables:
    (parts,) = cut_passes([loaded.adapter.prepare(parsed(expected)).work], ROOMY)
    return DeviceTables.of(build_tables(parts))


def truth_of(expected) -> torch.Tensor:
    return torch.tensor([h for row in expected["rows"] for h in row["hidden"]])


def test_hidden_states_are_the_oracles(model, loaded, expected) -> None:
    with torch.inference_mode():
        hidden = model.stack.readouts(tables_of(loaded, expected))
    truth = truth_of(expected)
    assert ((hidden - truth).norm(dim=1) / truth.norm(dim=1)).max() <= FP32_HIDDEN_REL_L2


def test_our_merge_is_pefts_but_for_single_steps(ours, served, mode, golden, package) -> None:
    if mode == "unmerged":
        assert served is ours
        return
    listed = golden(package, "merge")
    total = Difference(0, 0, 0)
    for name, tensor in ours.tensors.items():
        theirs = served.tensors[name]
        total += (found := compare(tensor, theirs))
        if found.max_ulp > 1:
            apart = (tensor.float() - theirs.float()).abs()
            step = torch.finfo(torch.bfloat16).eps * theirs.float().abs()
            assert apart[apart > step].max() <= KEV_MERGE_CANCELLED_ABS
    assert total.total == listed["compared"]
    assert 0 < total.differing <= KEV_MERGE_DIFFERING * total.total


def test_what_single_steps_of_the_merge_do_to_logits(ours, loaded, expected) -> None:
    as_served = PointerModel.build(ours, dtype=torch.float32)
    with torch.inference_mode():
        scores = as_served.scores(tables_of(loaded, expected))[:, 0]
    wanted = torch.tensor([z for row in expected["rows"] for z in [*row["logits"], np.nan]])
    known = ~wanted.isnan()
    assert (scores - wanted)[known].abs().max() <= KEV_MERGE_NOISE_LOGIT_ABS


def test_saved_hidden_states_give_the_oracles_probabilities(model, loaded, expected) -> None:
    """The head, the temperature and the softmax alone, before rounding."""
    tables = tables_of(loaded, expected)
    with torch.inference_mode():
        scores = model.point(truth_of(expected), tables.readout_query)[:, 0].tolist()
    temperature = loaded.adapter.checkpoint.temperature
    at = 0
    for row in expected["rows"]:
        count = len(row["logits"])
        ours = probabilities(scores[at : at + count], temperature)
        theirs = torch.softmax(torch.tensor(row["logits"]) / temperature, 0)
        assert np.abs(np.array(ours) - theirs.numpy()).max() <= KEV_HEAD_ABS
        at += count + 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_head_misses_the_bound(model, loaded, golden, package, mode, fault) -> None:
    expected = golden(package, mode, "wide")
    tables = tables_of(loaded, expected)
    truth = truth_of(expected)
    with torch.inference_mode():
        scores = FAULTS[fault](model, truth, tables.readout_query)[:, 0]
    wanted = torch.tensor([z for row in expected["rows"] for z in [*row["logits"], np.nan]])
    known = ~wanted.isnan()
    assert (scores - wanted)[known].abs().max() >= MUTATION_FACTOR * FP32_LOGIT_ABS


# a state is the only inner segment of a request: it has no siblings to take a state from
@pytest.mark.parametrize("name", [name for name in MUTATIONS if "sibling" not in name])
def test_a_fault_of_the_pass_misses_the_bound(model, loaded, golden, package, mode, name) -> None:
    expected = golden(package, mode, "support")
    (parts,) = cut_passes([loaded.adapter.prepare(parsed(expected)).work], ROOMY)
    tables = DeviceTables.of(MUTATIONS[name](build_tables(parts)))
    with torch.inference_mode():
        hidden = model.stack.readouts(tables)
    truth = truth_of(expected)
    errors = (hidden - truth).norm(dim=1) / truth.norm(dim=1)
    assert errors.square().mean().sqrt() >= MUTATION_FACTOR * FP32_HIDDEN_REL_L2


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
