import json
from collections.abc import Callable
from typing import Any

import pytest

from systone.bench.replies import Expectation, InvalidReplyError, answers_digest
from tests.unit.bench.conftest import request

EXPECTED = Expectation.of(request("s"))


def body(change: Callable[[Any], object] = lambda reply: None) -> bytes:
    reply = EXPECTED.sample()
    change(reply)
    return json.dumps(reply).encode()


def test_a_valid_reply_gives_its_answers_and_usage() -> None:
    def change(reply: Any) -> None:
        reply["usage"]["input_tokens"] = 44

    read = EXPECTED.read(body(change))
    assert list(read.answers) == ["sharp", "colour", "size"]
    assert read.input_tokens == 44


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda r: r.pop("answers"), "no answers"),
        (lambda r: r["answers"].pop("size"), "not those"),
        (lambda r: r["answers"].update(more={"type": "noul", "noul": 0.5}), "not those"),
        (lambda r: r["answers"]["sharp"].update(type="score"), "sharp: not a noul"),
        (lambda r: r["answers"]["sharp"].update(noul=1.5), "sharp: noul is 1.5"),
        (lambda r: r["answers"]["sharp"].update(noul=True), "noul is True"),
        (lambda r: r["answers"]["sharp"].update(noul=float("nan")), "NaN is not JSON"),
        (lambda r: r["answers"]["sharp"].update(noul=float("inf")), "Infinity is not JSON"),
        (lambda r: r["answers"]["colour"]["probabilities"].pop("red"), "other options"),
        (lambda r: r["answers"]["colour"]["probabilities"].update(green=0.0), "other options"),
        (lambda r: r["answers"]["colour"]["probabilities"].update(red=0.6), "sum to 1.1"),
        (lambda r: r["answers"]["colour"].update(choice="green"), "not the most probable"),
        (lambda r: r["answers"]["colour"].update(confidence=None), "confidence is None"),
        (
            lambda r: r["answers"]["colour"]["probabilities"].update(red=0.4, blue=0.6),
            "not the most probable",
        ),
        (lambda r: r["answers"]["size"].update(score=2.5), "score is 2.5"),
        (lambda r: r["answers"]["size"]["probabilities"].update({"0": -0.1}), "probability of 0"),
        (lambda r: r.pop("usage"), "input_tokens"),
        (lambda r: r["usage"].update(input_tokens=-1), "input_tokens"),
    ],
)
def test_whatever_is_wrong_with_a_reply_is_found(
    change: Callable[[Any], object], fault: str
) -> None:
    with pytest.raises(InvalidReplyError, match=fault):
        EXPECTED.read(body(change))


@pytest.mark.parametrize("data", [b"", b"[]", b'{"answers": 1}', b"\xff", b"{"])
def test_a_reply_that_is_no_object_is_invalid(data: bytes) -> None:
    with pytest.raises(InvalidReplyError):
        EXPECTED.read(data)


def test_probabilities_rounded_to_four_decimals_are_accepted_and_no_coarser_ones() -> None:
    names = {f"o{i}": None for i in range(255)}
    many = Expectation.of(
        {"questions": {"q": {"type": "choice", "instructions": "?", "criteria": names}}}
    )
    reply = many.sample()
    reply["answers"]["q"]["probabilities"] = dict.fromkeys(names, round(1 / 255, 4))
    many.read(json.dumps(reply).encode())
    reply["answers"]["q"]["probabilities"] = dict.fromkeys(names, round(1 / 255, 3))
    with pytest.raises(InvalidReplyError, match="sum to"):
        many.read(json.dumps(reply).encode())


def test_a_digest_is_of_the_values_whatever_their_order() -> None:
    a = {"x": {"type": "noul", "noul": 0.1}, "y": {"type": "noul", "noul": 0.2}}
    assert answers_digest(a) == answers_digest({"y": a["y"], "x": a["x"]})
    nearby = {**a, "x": {"type": "noul", "noul": 0.10000000000000002}}
    assert answers_digest(a) != answers_digest(nearby)
