"""The seed corpus's shapes: packed in any order or split over passes, everybody's serial answer."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from systone.config import EngineConfig, ModelSettings
from systone.engine import Engine
from systone.models import registry
from systone.models.base import Adapter
from systone.protocol.types import Choice, Decision, Noul, Question, Request, Score
from tests.numerics import GOLDEN_ANSWER_ABS

pytestmark = pytest.mark.slow

BUDGET = 4096  # unique tokens of a pass


def options(count: int) -> Choice:
    return Choice(
        "Which bay is it in?", {f"bay {i}": f"Row {i % 7}, shelf {i}." for i in range(count)}
    )


CORPUS: tuple[Request, ...] = (
    *(Request("Pallet 9 stands by the door.", {"c": options(n)}) for n in (3, 16, 17, 33)),
    *(
        Request("The alarm rang twice.", {"s": Score("How loud?", [f"step {i}" for i in range(n)])})
        for n in (2, 10)
    ),
    Request(
        {"log": ["door open", "door shut"], "count": 2.0},
        {
            "n": Noul("Is the door shut?", {"true": "It is closed.", "false": "It stands open."}),
            "c": options(4),
            "s": Score("How safe?", ["Unsafe.", "Safe."]),
            "m": Noul("Was it opened?"),
        },
    ),
)


@pytest.fixture(scope="module")
def engines(package) -> Iterator[tuple[Engine, Engine, Adapter]]:
    """(packed and shared; serial, one row a forward; the adapter of the first)"""
    packed = ModelSettings(source=str(package), max_batch_tokens=BUDGET)
    serial = ModelSettings(source=str(package), pack=False)
    loaded = registry.load(packed.source, packed)
    with Engine([loaded], EngineConfig(model=packed)) as ours, Engine([serial]) as alone:
        yield ours, alone, loaded.adapter


def same(ours: Decision, expected: Decision) -> None:
    assert ours.usage == expected.usage
    assert list(ours.answers) == list(expected.answers)
    for name, answer in ours.answers.items():
        wanted: Any = expected.answers[name]
        for a, b in zip(numbers(answer), numbers(wanted), strict=True):
            assert abs(a - b) <= GOLDEN_ANSWER_ABS


def numbers(answer: Any) -> list[float]:
    if answer.kind == "noul":
        return [answer.noul]
    p = answer.probabilities
    return [*(p.values() if answer.kind == "choice" else p), answer.confidence]


def test_any_order_and_any_company_gives_the_serial_answers(engines) -> None:
    ours, alone, _ = engines
    expected = [alone.submit(request).result() for request in CORPUS]
    rng = random.Random(5)
    for _ in range(3):
        order = rng.sample(range(len(CORPUS)), len(CORPUS))
        pending = [ours.submit(CORPUS[i]) for i in order]
        for i, future in zip(order, pending, strict=True):
            same(future.result(), expected[i])


def test_changed_then_returned_inputs_give_the_first_answer_again(engines) -> None:
    ours, _, _ = engines
    first = ours.submit(CORPUS[0]).result()
    changed = ours.submit(Request("Pallet 8 stands by the door.", CORPUS[0].questions)).result()
    again = ours.submit(CORPUS[0]).result()
    assert again.answers == first.answers
    assert changed.answers != first.answers


@pytest.mark.parametrize("total", [BUDGET - 1, BUDGET, BUDGET + 1])
def test_requests_at_the_edge_of_a_pass_give_the_serial_answers(engines, total) -> None:
    """Two requests whose unique tokens sum to just below, at and above the budget."""
    ours, alone, adapter = engines
    half = total // 2
    requests = [sized(adapter, half, "door"), sized(adapter, total - half, "gate")]
    costs = [adapter.prepare(request).cost.tokens for request in requests]
    assert sum(costs) == total
    expected = [alone.submit(request).result() for request in requests]
    pending = [ours.submit(request) for request in requests]
    for future, wanted in zip(pending, expected, strict=True):
        same(future.result(), wanted)


def sized(adapter: Adapter, tokens: int, word: str) -> Request:
    """A request of exactly that many unique tokens: each further word is one."""
    question: dict[str, Question] = {"c": options(2)}
    short = Request(word, question)
    missing = tokens - adapter.prepare(short).cost.tokens
    return Request(" ".join([word] * (1 + missing)), question)
