"""A synthetic Kev in a server process of its own, asked by the official clients and jevcompat."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from typesafe_sdk import Choice, Noul, RetryPolicy, Score, TypeSafeClient

from systone.weights.synth import synthesize
from tests.e2e.conftest import Server, launch
from tests.e2e.test_official_clients import jevcompat

pytestmark = pytest.mark.slow  # a tiny checkpoint has the real vocabulary


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthesize("kev-4b", "tiny", 1, tmp_path_factory.mktemp("kev") / "D")


@pytest.fixture(scope="module")
def kev(directory: Path) -> Iterator[Server]:
    env = {"OMP_NUM_THREADS": "1"}
    log = directory.with_name("log")
    running = launch(log, "--model", str(directory), "--device", "cpu", env=env)
    yield running
    running.stop()


def test_jevcompat_finds_every_requirement_met(kev, tmp_path) -> None:
    assert jevcompat(kev.url, tmp_path / "report.json") == {"MUST": 0, "SHOULD": 0}


@pytest.mark.parametrize("model", ["kev-latest", "jev-latest"])
def test_the_typesafe_sdk_reads_every_answer(kev, model) -> None:
    questions = {
        "refund": Noul(instructions="Does the writer want money back?"),
        "team": Choice(instructions="Which?", criteria={"desk": None, "other": {"x": 1}}),
        "tone": Score(instructions="How cross?", criteria=["calm", {"label": "cross"}]),
    }
    retry = RetryPolicy(max_retries=0)
    with TypeSafeClient(api_key="local", base_url=kev.url, timeout=60, retry=retry) as client:
        reply = client.system_one({"mail": "charged twice"}, questions, model=model)
        assert client.models.list().models[0].name == "kev-4b"
    assert set(reply.choices["team"].probabilities) == {"desk", "other"}
    assert reply.scores["tone"].score == pytest.approx(
        reply.scores["tone"].probabilities[1], abs=1e-4
    )
    assert reply.usage.input_tokens > 0


def test_the_openai_client_reads_decisions(kev) -> None:
    client = openai.OpenAI(api_key="local", base_url=f"{kev.url}/v1", max_retries=0, timeout=60)
    questions = [{"type": "predicate", "name": "damaged", "instructions": "It arrived damaged."}]
    reply = client.decisions.create(model="kev-latest", input="It is cracked.", questions=questions)
    assert [answer.name for answer in reply.answers] == ["damaged"]
    assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens
    client.close()
