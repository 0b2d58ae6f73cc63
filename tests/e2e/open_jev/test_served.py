"""Open-Jev through the real server: a package, its export, other seeds, the public clients."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Server
from tests.e2e.open_jev.conftest import ENV, VECTOR_A, VECTOR_A_USAGE, synthesize, systone
from tests.e2e.test_official_clients import (
    QUESTIONS,
    STATE,
    check_openai,
    check_reply,
    jevcompat,
    sdk,
)
from tests.numerics import FP32_LOGIT_ABS

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[2] / "golden" / "open-jev-9b.fp32.triage.json"
WITH_EXTRAS = {"x-systone-extras": "1"}


def answer_a(server: Server) -> dict:
    reply = server.post("/v1/systemone", VECTOR_A, headers=WITH_EXTRAS)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_package_and_export_answer_vector_a_with_the_same_numbers(
    jev_server, export, start_server
) -> None:
    ours = answer_a(jev_server)
    merged = answer_a(start_server("--model", str(export), env=ENV))
    assert merged["answers"] == ours["answers"]
    assert ours["usage"] == merged["usage"] == {"input_tokens": VECTOR_A_USAGE, "output_tokens": 0}
    scores = ours["x_systone"]["scores"]
    assert {name: len(each) for name, each in scores.items()} == {
        "route": 3,
        "refund_review": 1,
        "urgency": 3,
    }
    assert ours["model"] == "Qwen/Qwen3.5-9B"


def test_every_logit_is_the_oracles(jev_server) -> None:
    """The golden file holds what transformers and PEFT gave on the same package."""
    golden = json.loads(GOLDEN.read_text())
    assert golden["request"] == VECTOR_A
    scores = answer_a(jev_server)["x_systone"]["scores"]
    ours = [score for each in scores.values() for score in each]
    assert len(ours) == len(golden["rows"]) == 7
    for score, row in zip(ours, golden["rows"], strict=True):
        assert abs(score - row["logit"]) <= FP32_LOGIT_ABS


def test_another_seed_answers_differently(jev_server, tmp_path, start_server) -> None:
    other = start_server("--model", str(synthesize(tmp_path / "D2", seed=2)), env=ENV)
    assert answer_a(other)["answers"] != answer_a(jev_server)["answers"]


def test_check_says_what_would_be_served(package) -> None:
    text = systone("check", "--model", str(package))
    assert "Qwen/Qwen3.5-9B" in text
    assert "calibrated: false" in text  # the weights are random


def test_over_length_is_refused_before_any_forward(jev_server) -> None:
    def batches() -> list[str]:
        lines = jev_server.client.get("/metrics").text.splitlines()
        return [line for line in lines if line.startswith("systone_batches_total")]

    before = batches()
    body = {
        "state": "word " * 5000,
        "questions": {"ok": {"type": "noul", "instructions": "Is it long?"}},
    }
    reply = jev_server.post("/v1/systemone", body)
    assert reply.status_code == 422
    assert "exceeds max_length=4096; no silent truncation" in reply.text
    assert "question ok:" in reply.text
    assert batches() == before


def test_the_official_sdk_reads_every_answer(jev_server) -> None:
    with sdk(jev_server.url) as client:
        check_reply(client.system_one(STATE, QUESTIONS))


def test_the_openai_client_reads_decisions(jev_server) -> None:
    check_openai(jev_server.url)


def test_jevcompat_finds_every_requirement_met(jev_server, tmp_path) -> None:
    assert jevcompat(jev_server.url, tmp_path / "report.json") == {"MUST": 0, "SHOULD": 0}
