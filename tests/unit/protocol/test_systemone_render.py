"""Section 2: the reply's shape, numbers and order."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systone.errors import EngineFaultError
from systone.protocol import systemone
from systone.protocol.types import (
    Answer,
    ChoiceAnswer,
    Decision,
    Dialect,
    NoulAnswer,
    ScoreAnswer,
    Usage,
)

DECISION = Decision(
    model="our-model-1",
    answers={
        "replace": NoulAnswer(0.93),
        "desk": ChoiceAnswer("logistics", {"logistics": 0.9, "sales": 0.1}, 0.8),
        "heat": ScoreAnswer(1.3, ["calm", "annoyed", {"name": "furious"}], [0.1, 0.5, 0.4], 0.25),
    },
    usage=Usage(212, 0),
    metadata={"temperature": 1.5},
    extras={"notes": ["n"]},
)


def rendered(decision: Decision, dialect: Dialect = "default", extras: bool = False) -> Any:
    return json.loads(systemone.render(decision, dialect=dialect, extras=extras))


def one(answer: Answer) -> Decision:
    return Decision("m", {"q": answer}, Usage(1))


def test_the_contract_s_example_reply() -> None:
    assert systemone.render(DECISION, dialect="default", extras=False) == (
        b'{"model":"our-model-1","answers":{"replace":{"type":"noul","noul":0.93},'
        b'"desk":{"type":"choice","choice":"logistics","probabilities":{"logistics":0.9,'
        b'"sales":0.1},"confidence":0.8},"heat":{"type":"score","score":1.3,"legend":{"0":"calm",'
        b'"1":"annoyed","2":{"name":"furious"}},"probabilities":{"0":0.1,"1":0.5,"2":0.4},'
        b'"confidence":0.25}},"usage":{"input_tokens":212,"output_tokens":0}}'
    )


def test_extras_and_metadata_appear_only_where_asked_for() -> None:
    assert list(rendered(DECISION)) == ["model", "answers", "usage"]
    assert list(rendered(DECISION, "jev-exact")) == ["model", "answers", "usage"]
    assert rendered(DECISION, extras=True)["x_systone"] == {"notes": ["n"]}
    body = rendered(DECISION, "open-jev")
    assert list(body) == ["model", "answers", "usage", "metadata"]
    assert body["metadata"] == {"temperature": 1.5}


def test_numbers_are_not_rounded() -> None:
    p = 0.1 + 0.2
    body = rendered(one(ChoiceAnswer("a", {"a": p, "b": 1e-17}, 5e-324)))
    assert body["answers"]["q"]["probabilities"] == {"a": p, "b": 1e-17}
    assert body["answers"]["q"]["confidence"] == 5e-324


def test_an_impossible_option_is_a_plain_zero() -> None:
    assert b'"b":0.0' in systemone.render(
        one(ChoiceAnswer("a", {"a": 1.0, "b": 0.0}, 1.0)), dialect="default", extras=False
    )


def test_numpy_numbers_are_written_as_json_numbers() -> None:
    usage = Usage(int(np.int64(3)), np.int64(4))  # type: ignore[arg-type]
    decision = Decision("m", {"q": NoulAnswer(np.float64(0.25))}, usage)
    assert systemone.render(decision, dialect="default", extras=False) == (
        b'{"model":"m","answers":{"q":{"type":"noul","noul":0.25}},'
        b'"usage":{"input_tokens":3,"output_tokens":4}}'
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "answer",
    [
        lambda x: NoulAnswer(x),
        lambda x: ChoiceAnswer("a", {"a": 1.0, "b": x}, 1.0),
        lambda x: ChoiceAnswer("a", {"a": 1.0}, x),
        lambda x: ScoreAnswer(x, ["a"], [1.0], 1.0),
        lambda x: ScoreAnswer(0.0, ["a"], [x], 1.0),
    ],
)
def test_a_number_that_is_not_finite_never_leaves(answer: Any, bad: float) -> None:
    with pytest.raises(EngineFaultError) as caught:
        systemone.render(one(answer(bad)), dialect="default", extras=False)
    assert caught.value.code == "non_finite_output"


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
P = st.floats(0, 1)


@given(
    st.dictionaries(
        NAMES,
        st.builds(NoulAnswer, P)
        | st.builds(ChoiceAnswer, NAMES, st.dictionaries(NAMES, P, max_size=5), P)
        | st.integers(1, 10).flatmap(
            lambda n: st.builds(
                ScoreAnswer,
                P,
                st.lists(NAMES | st.dictionaries(NAMES, NAMES), min_size=n, max_size=n),
                st.lists(P, min_size=n, max_size=n),
                P,
            )
        ),
        max_size=5,
    )
)
def test_replies_read_back_equal_and_in_order(answers: dict[str, Answer]) -> None:
    body = rendered(Decision("m", answers, Usage(1, 2)))
    assert list(body["answers"]) == list(answers)
    for sent, answer in zip(body["answers"].values(), answers.values(), strict=True):
        assert sent["type"] == answer.kind
        if isinstance(answer, NoulAnswer):
            assert sent == {"type": "noul", "noul": answer.noul}
        elif isinstance(answer, ChoiceAnswer):
            assert list(sent["probabilities"].items()) == list(answer.probabilities.items())
            assert (sent["choice"], sent["confidence"]) == (answer.choice, answer.confidence)
        else:
            keys = [str(i) for i in range(len(answer.legend))]
            assert list(sent["legend"]) == list(sent["probabilities"]) == keys
            assert list(sent["legend"].values()) == answer.legend
            assert list(sent["probabilities"].values()) == answer.probabilities
            assert (sent["score"], sent["confidence"]) == (answer.score, answer.confidence)
