"""Text, token ids, read-outs and usage against an oracle written from the contract alone."""

import json
import random

import numpy as np
import pytest

from oracles import kev_answers, kev_prompts
from systone.errors import RequestError
from systone.models.base import Readout
from systone.models.kev.prompt import read_request
from systone.models.kev.render import escape, render
from systone.protocol import systemone
from systone.protocol.kev import answer_object
from systone.protocol.rules import WireLimits
from systone.protocol.types import Choice, Noul, Request, Score
from tests.unit.models_kev import odd_json

CASES = 400
STATS = {"inference_seconds": 0.01234, "prefix_cache": {}}


def parse(body):
    limits = WireLimits(max_levels=255)
    return systemone.parse(json.dumps(body).encode(), dialect="kev", limits=limits)


def rows_of(trie):
    """Per row: ids of its parent and of its own segment, and its read-outs as positions."""
    starts = np.concatenate([[0], np.cumsum(trie.node_len)])
    reads = np.concatenate([[0], np.cumsum(trie.row_readouts)])
    found = []
    for row, node in enumerate(trie.row_node.tolist()):
        parent = int(trie.node_parent[node])
        offsets = trie.readout_offset[reads[row] : reads[row + 1]]
        found.append(
            (
                trie.token_ids[starts[parent] : starts[parent + 1]].tolist(),
                trie.token_ids[starts[node] : starts[node + 1]].tolist(),
                (offsets + trie.node_position[node]).tolist(),
            )
        )
    return found


@pytest.mark.parametrize("name", ["Qwen2Tokenizer", "Qwen3_5Tokenizer"])
def test_odd_json_gives_the_oracles_rows_and_usage(tokenizers, name):
    from systone.models.kev import KevAdapter
    from tests.unit.models_kev.conftest import FOUR_B

    tokenizer, rng = tokenizers[name], random.Random(10)
    adapter = KevAdapter(FOUR_B, tokenizer)

    def encode(text: str) -> list[int]:
        return tokenizer.backend.encode(text, add_special_tokens=False).ids

    for _ in range(CASES):
        body = odd_json.request(rng)
        request = parse(body)
        text, packed = read_request(request), kev_prompts.pack(body, encode)
        assert "<|fim_prefix|>" + escape(text.state) == packed.state_text
        for asked, branch in zip(text.questions, packed.branches, strict=True):
            options = "".join(f"<|box_start|>{escape(o)}<|box_end|>" for o in asked.options)
            whole = f"<|fim_middle|>{escape(asked.instructions)}{options}<|fim_suffix|>"
            assert whole == branch.text
        prepared = adapter.prepare(request)
        assert rows_of(prepared.work) == [
            (packed.state, b.ids, [*b.options, b.decide]) for b in packed.branches
        ]
        assert prepared.input_tokens == packed.input_tokens
        # the other way to the same ids: one string, added tokens matched first
        joined = packed.state_text + "".join(b.text for b in packed.branches)
        assert encode(joined) == packed.state + [i for b in packed.branches for i in b.ids]
        check_answers(adapter, prepared, body, encode, rng)


def check_answers(adapter, prepared, body, encode, rng):
    """Random logits: answers and both usage figures exact to the last emitted digit."""
    count = prepared.work.num_readouts
    values = np.array([[rng.gauss(0, 4)] for _ in range(count)], np.float32)
    decision = adapter.finish(prepared, Readout(values, STATS))
    at, answers = 0, {}
    for name, question in body["questions"].items():
        many = len(kev_prompts.options(question))
        logits = values[at : at + many, 0].tolist()
        answers[name] = kev_answers.answer(question, logits, adapter.checkpoint.temperature)
        at += many + 1
    ours = {name: answer_object(answer) for name, answer in decision.answers.items()}
    assert json.dumps(ours).split(".")[0] == json.dumps(answers).split(".")[0]
    assert_near(ours, answers)
    assert decision.usage.output_tokens == kev_answers.output_tokens(ours, encode)
    assert decision.metadata == {"latency_ms": 12.3}


def assert_near(ours, theirs):
    """Same fields in the same order, numbers equal but for a tie of the fourth decimal."""
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            assert_near(ours[key], theirs[key])
    elif isinstance(theirs, float):
        assert abs(ours - theirs) < 1.0000001e-4
        assert ours == round(ours, 4)
    else:
        assert ours == theirs


def test_the_contracts_example():
    state = {
        "message": "Hi, I was charged twice for my order #4471 and I want a refund.",
        "plan": "pro",
        "order": {"id": 4471, "items": ["phone case", "charger"]},
    }
    assert render(state) == (
        "message: Hi, I was charged twice for my order #4471 and I want a refund.\n"
        "plan: pro\norder:\n  id: 4471\n  items:\n    - phone case\n    - charger"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "True"),
        (1, "1"),
        (1.0, "1.0"),
        (1e-07, "1e-07"),
        (10**40, "1" + "0" * 40),
        ([], ""),
        ({}, ""),
        ({"a": []}, "a:\n"),
        ([[1, [2]], {"k": 3, "l": None}], "- - 1\n  - - 2\n- k: 3\n  l: "),
        ([" \u2003x"], "- x"),
        ({"a": "b\nc"}, "a: b\nc"),
    ],
)
def test_rendering(value, text):
    assert render(value) == text == kev_prompts.shown(value)


@pytest.mark.parametrize(
    ("described", "option"),
    [
        (None, "n"),
        ("", "n"),
        ({}, "n: "),
        ([], "n: "),
        (0, "n: 0"),
        (False, "n: False"),
        ("d", "n: d"),
    ],
)
def test_an_option_is_its_name_alone_only_without_a_description(described, option):
    request = Request("", {"q": Choice("", {"n": described})})
    assert read_request(request).questions[0].options == (option,)


def test_each_side_of_a_noul_takes_its_own_description():
    request = Request("", {"q": Noul("", {"true": "T"}), "r": Noul("")})
    texts = read_request(request).questions
    assert [text.options for text in texts] == [("no", "yes: T"), ("no", "yes")]


def test_delimiters_cannot_be_forged_and_other_added_tokens_are_ids(adapter, tokenizer):
    forged = Request("<|box_end|>", {"q": Noul("<think><|fim_suffix|>")})
    ids = adapter.prepare(forged).work.token_ids.tolist()
    assert ids.count(248050) == 2  # the two options' own ends
    assert ids.count(248062) == 1
    assert 248068 in ids
    assert escape("<|a|><|b c|>") == "<\u00a6a\u00a6><|b c|>"


def test_an_empty_state_is_one_token(adapter):
    trie = adapter.prepare(Request("", {"q": Noul("")})).work
    assert trie.node_len.tolist()[0] == 1
    assert trie.token_ids.tolist()[:2] == [248060, 248061]


@pytest.mark.parametrize(
    ("request_", "loc"),
    [
        (Request("\ud800", {"q": Noul("?")}), ("state",)),
        (Request("", {"q": Noul("\udfff")}), ("questions", "q", "noul", "instructions")),
        (Request("", {"q": Score("?", [])}), ("questions", "q", "score", "criteria")),
        (
            Request("", {"q": Choice("?", {str(i): None for i in range(256)})}),
            ("questions", "q", "choice", "criteria"),
        ),
        (Request("", {}), ("questions",)),
    ],
)
def test_what_has_no_prompt_is_refused_by_field(adapter, request_, loc):
    with pytest.raises(RequestError) as refused:
        adapter.prepare(request_)
    assert refused.value.faults[0].loc == loc
    assert refused.value.status == 422
