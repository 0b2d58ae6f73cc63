"""The oracles restate the contract: its golden numbers, its prompts, and pure-torch operators."""

from __future__ import annotations

import math
import sys
import types

import pytest

from oracles.answers import answer, softmax
from oracles.prompts import prompts
from oracles.pure_torch import qwen3_5_modeling

TEMPERATURE = 2.5343690298472983


def test_golden_numbers_of_the_contract() -> None:
    shares = softmax([-2.0, -1.0, 0.0], TEMPERATURE)
    golden = [0.21343437444688138, 0.3166841593736535, 0.4698814661794651]
    assert all(abs(a - b) < 1e-12 for a, b in zip(shares, golden, strict=True))
    choice = answer(
        {"type": "choice", "criteria": {"a": None, "b": None, "c": None}},
        [-2.0, -1.0, 0.0],
        TEMPERATURE,
    )
    assert choice["choice"] == "c"
    assert math.isclose(choice["confidence"], 0.20482219926919762, abs_tol=1e-12)
    score = answer({"type": "score", "criteria": ["x", "y", "z"]}, [-2.0, -1.0, 0.0], TEMPERATURE)
    assert math.isclose(score["score"], 1.2564470917325836, abs_tol=1e-12)
    assert score["confidence"] == 0.0


def test_prompt_texts() -> None:
    request = {
        "state": {"b": 1.0, "a": "é"},
        "questions": {
            "n": {"type": "noul", "instructions": "Q?", "criteria": {"true": "T", "false": "F"}},
            "c": {"type": "choice", "instructions": "Q?", "criteria": {"x": None, "y": "why"}},
            "s": {"type": "score", "instructions": "Q?", "criteria": ["low"]},
        },
    }
    start = '<|im_start|>user\nContext:\n{"a": "é", "b": 1.0}\n\nQuestion: Q?\n'
    end = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    ask = "Is this proposed answer correct? Answer Yes or No." + end
    noul = "Is the answer to this question yes? Answer Yes or No." + end
    assert [p.text for p in prompts(request)] == [
        f"{start}Yes means: T\nNo means: F\n{noul}",
        f"{start}Proposed answer: x\n{ask}",
        f"{start}Proposed answer: y: why\n{ask}",
        f"{start}Proposed answer: low\n{ask}",
    ]


def test_the_modeling_code_runs_in_plain_torch() -> None:
    assert qwen3_5_modeling().__name__.endswith("modeling_qwen3_5")
    assert "fla" not in sys.modules


def test_a_fast_kernel_library_that_is_loaded_already_is_refused(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "fla", types.ModuleType("fla"))
    with pytest.raises(RuntimeError, match="fla is imported already"):
        qwen3_5_modeling()
