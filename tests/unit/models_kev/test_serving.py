"""A Kev of synthetic weights over the engine's passes: shapes that hurt, company, policies."""

import numpy as np
import pytest

from systone.models.base import Readout
from systone.protocol.types import Choice, Noul, Request, Score

CPU_TOLERANCE = 1e-4  # of a logit in FP32: products of torch depend on the number of rows
WORD = " tree"  # one token

QUESTIONS = {
    "desk": Choice("Which desk?", {"billing": "money", "other": None, "none": ""}),
    "refund": Noul("Is a refund asked for?", {"true": "in words"}),
    "mood": Score("How upset?", ["calm", "annoyed", "furious", "gone"]),
    "only": Choice(None, {"yes": "all"}),
}


def decide(loaded, *requests):
    batch = [loaded.adapter.prepare(request) for request in requests]
    outcomes = loaded.executor.execute(batch)
    assert all(isinstance(outcome, Readout) for outcome in outcomes), outcomes
    return [loaded.adapter.finish(p, o) for p, o in zip(batch, outcomes, strict=True)]


def logits(decision) -> np.ndarray:
    return np.array([z for row in decision.extras["logits"].values() for z in row])


def near(ours, theirs) -> bool:
    return bool(np.abs(logits(ours) - logits(theirs)).max() < CPU_TOLERANCE)


@pytest.mark.parametrize("tokens", [0, 62, 63, 64])
def test_one_question_is_answered_as_among_many(loaded, tokens):
    """States of 1, 63, 64 and 65 tokens, their delimiter included."""
    state = WORD * tokens
    (together,) = decide(loaded, Request(state, QUESTIONS))
    assert loaded.adapter.prepare(Request(state, QUESTIONS)).work.node_len[0] == tokens + 1
    for name, question in QUESTIONS.items():
        (alone,) = decide(loaded, Request(state, {name: question}))
        difference = np.subtract(alone.extras["logits"][name], together.extras["logits"][name])
        assert np.abs(difference).max() < CPU_TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [1022, 1023, 1024])
def test_states_around_1024_tokens(loaded, tokens):
    state = WORD * tokens
    (together,) = decide(loaded, Request(state, QUESTIONS))
    (alone,) = decide(loaded, Request(state, {"mood": QUESTIONS["mood"]}))
    difference = np.subtract(alone.extras["logits"]["mood"], together.extras["logits"]["mood"])
    assert np.abs(difference).max() < CPU_TOLERANCE


@pytest.mark.slow
def test_a_branch_longer_than_1024_tokens(loaded, serve):
    long = Request("s", {"q": Noul(WORD * 1100), "r": Noul("?")})
    unshared = serve(policy="off")
    (ours,), (theirs,) = decide(loaded, long), decide(unshared, long)
    assert near(ours, theirs)


@pytest.mark.parametrize(
    "question",
    [
        Choice("?", {f"o{i}": None for i in range(255)}),
        Score("?", [f"l{i}" for i in range(255)]),
        Choice("?", {"only": None}),
        Score("?", ["only"]),
    ],
    ids=["255 options", "255 levels", "one option", "one level"],
)
def test_the_smallest_and_the_largest_questions(loaded, question):
    (decision,) = decide(loaded, Request("s", {"q": question, "n": Noul("!")}))
    answer = decision.answers["q"]
    shares = list(
        answer.probabilities.values() if answer.kind == "choice" else answer.probabilities
    )
    assert len(shares) == len(question.criteria)
    assert abs(sum(shares) - 1) < 0.02  # 255 roundings to four decimals
    assert len(set(decision.extras["logits"]["q"])) == len(shares)


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": "off"},
        {"policy": "shared", "max_batch_rows": 5},
        {"policy": "auto", "max_batch_tokens": 60},
        {"pack": False},
    ],
    ids=str,
)
def test_policies_budgets_and_packing_change_no_logit(loaded, serve, changes):
    other = serve(**changes)
    requests = [Request(WORD * 50, QUESTIONS), *loaded.warmup]
    for ours, theirs in zip(decide(loaded, *requests), decide(other, *requests), strict=True):
        assert near(ours, theirs)
        assert ours.usage.input_tokens == theirs.usage.input_tokens
    other.executor.close()


def test_a_request_gets_the_same_logits_alone_and_in_company(loaded):
    mine = Request({"a": [1.0, None]}, QUESTIONS)
    (alone,) = decide(loaded, mine)
    first, *_, last = decide(loaded, mine, *loaded.warmup, Request("x", QUESTIONS), mine)
    assert near(first, alone)
    assert near(last, alone)


def test_option_order_is_seen_and_question_order_and_ids_are_not(loaded):
    criteria = {"billing": "money", "other": "the rest"}
    turned = dict(reversed(criteria.items()))
    noul = Noul("Is it urgent?")
    one, two, three = decide(
        loaded,
        Request("s", {"q": Choice("?", criteria), "n": noul}),
        Request("s", {"q": Choice("?", turned), "n": noul}),
        Request("s", {"m": noul, "other id": Choice("?", criteria)}),
    )
    there, back = one.extras["logits"]["q"], two.extras["logits"]["q"]
    assert np.abs(np.subtract(there, back[::-1])).min() > 10 * CPU_TOLERANCE
    again = three.extras["logits"]["other id"]
    assert np.abs(np.subtract(there, again)).max() < CPU_TOLERANCE


def test_equal_questions_of_a_request_get_equal_answers(loaded):
    noul = Noul("Is it urgent?")
    (decision,) = decide(loaded, Request("s", {"a": noul, "b": noul}))
    assert decision.extras["logits"]["a"] == decision.extras["logits"]["b"]
    assert decision.usage.input_tokens == 2 + 2 * 12


def test_two_seeds_answer_differently(loaded, serve):
    other = serve(seed=2)
    (ours,), (theirs,) = (decide(m, Request("s", QUESTIONS)) for m in (loaded, other))
    assert np.abs(logits(ours) - logits(theirs)).min() > 10 * CPU_TOLERANCE
    other.executor.close()


def test_synthetic_weights_are_not_called_calibrated(loaded):
    assert loaded.adapter.card.calibrated is False
    assert loaded.adapter.card.name == "kev-4b"
    assert loaded.adapter.card.aliases == ("kev-latest",)
