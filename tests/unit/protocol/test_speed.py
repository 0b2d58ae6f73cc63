"""Parsing stays cheap: bounds loose for a busy machine, tight for a tenfold regression."""

from __future__ import annotations

import json
import sys
import time
import timeit
from collections.abc import Callable
from typing import Any

from systone.protocol import systemone
from systone.protocol.types import ChoiceAnswer, Decision, NoulAnswer, ScoreAnswer, Usage


def body(count: int) -> bytes:
    kinds: list[Any] = [
        {"type": "choice", "instructions": "Which desk?", "criteria": dict.fromkeys("abcde", "t")},
        {"type": "noul", "instructions": "Is it?", "criteria": {"true": "a"}},
        {"type": "score", "instructions": ["Rate."], "criteria": ["calm", "annoyed", "furious"]},
    ]
    questions = {f"q{i}": kinds[i % 3] for i in range(count)}
    return json.dumps({"state": "word " * 60, "questions": questions}).encode()


def fastest_s(run: Callable[[], Any], number: int = 20) -> float:
    """CPU seconds of the fastest of 15 batches, untraced: other processes don't count."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        return min(timeit.repeat(run, number=number, repeat=15, timer=time.process_time)) / number
    finally:
        sys.settrace(tracer)


def test_twenty_questions_parse_within_a_few_plain_json_parses() -> None:
    data = body(20)
    plain = fastest_s(lambda: json.loads(data))
    ours = fastest_s(lambda: systemone.parse(data, dialect="default"))
    assert ours < 25 * plain  # about 8 when written


def test_parsing_is_linear_in_the_number_of_questions() -> None:
    small, large = body(40), body(1280)
    one = fastest_s(lambda: systemone.parse(small, dialect="default"))
    many = fastest_s(lambda: systemone.parse(large, dialect="default"), number=2)
    assert many < one * 32 * 4


def test_a_reply_of_twenty_answers_renders_within_a_few_plain_dumps() -> None:
    kinds = [
        ChoiceAnswer("a", dict.fromkeys("abcde", 0.123456789), 0.5),
        NoulAnswer(0.123456789),
        ScoreAnswer(1.5, ["calm", "annoyed", "furious"], [0.1, 0.2, 0.7], 0.5),
    ]
    decision = Decision("m", {f"q{i}": kinds[i % 3] for i in range(20)}, Usage(100))
    value = json.loads(systemone.render(decision, dialect="default", extras=False))
    plain = fastest_s(lambda: json.dumps(value))
    ours = fastest_s(lambda: systemone.render(decision, dialect="default", extras=False))
    assert ours < 10 * plain  # about 2 when written
