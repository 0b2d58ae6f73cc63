"""The official libraries on the same files: the package unmerged, and our merged export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oracles.checkpoint import load
from oracles.open_jev import capture
from tests.e2e.open_jev.conftest import VECTOR_A, VECTOR_A_USAGE
from tests.numerics import FP32_LOGIT_ABS, MERGED_VS_UNMERGED_PROB

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[2] / "golden"


def probabilities(answers: dict[str, Any]) -> list[float]:
    flat: list[float] = []
    for answer in answers.values():
        flat += [answer["noul"]] if "noul" in answer else answer["probabilities"].values()
    return flat


def test_the_oracle_reads_the_same_answers_from_the_export(export) -> None:
    got = capture(load(export, "fp32"), VECTOR_A)
    assert got["usage"]["input_tokens"] == VECTOR_A_USAGE
    merged = json.loads((GOLDEN / "open-jev-9b.fp32.triage.json").read_text())
    for ours, theirs in zip(got["rows"], merged["rows"], strict=True):
        assert ours["ids"] == theirs["ids"]
        assert abs(ours["logit"] - theirs["logit"]) <= FP32_LOGIT_ABS
    unmerged = json.loads((GOLDEN / "open-jev-9b.unmerged.triage.json").read_text())
    pairs = zip(probabilities(got["answers"]), probabilities(unmerged["answers"]), strict=True)
    assert max(abs(a - b) for a, b in pairs) <= MERGED_VS_UNMERGED_PROB


def test_an_export_has_nothing_left_to_merge(export) -> None:
    with pytest.raises(RuntimeError, match="merged already"):
        load(export, "unmerged")
