"""The official SDKs and the public conformance suite against a real server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest
from typesafe_sdk import (
    AsyncTypeSafeClient,
    Choice,
    Noul,
    RetryPolicy,
    Score,
    TypeSafeAPIError,
    TypeSafeClient,
)

STATE = {"subject": "charged twice", "body": ["please refund the second payment"]}
QUESTIONS = {
    "refund": Noul(instructions="Does the writer want money back?"),
    "bank": Noul(criteria={"true": "a bank is mentioned", "false": None}),
    "team 1.ü": Choice(instructions=["Pick", "one"], criteria={"Kasse ü": None, "other": {"x": 1}}),
    "tone": Score(instructions={"rate": "anger"}, criteria=["calm", {"label": "cross"}, ["mad"]]),
}


def sdk(url: str, kind: type = TypeSafeClient, **options: Any) -> Any:
    retry = RetryPolicy(max_retries=0)
    return kind(api_key="local", base_url=url, timeout=60, retry=retry, **options)


def check_reply(reply: Any) -> None:
    assert set(reply.answers) == set(QUESTIONS)
    assert set(reply.choices["team 1.ü"].probabilities) == {"Kasse ü", "other"}
    tone = reply.scores["tone"]
    assert sorted(tone.probabilities) == sorted(tone.legend) == [0, 1, 2]
    assert tone.score == pytest.approx(sum(i * p for i, p in tone.probabilities.items()))
    assert reply.usage.input_tokens > 0
    assert reply.request_id


@pytest.mark.parametrize("compression", [False, "zstd"])
def test_typesafe_sdk_reads_every_answer(server, compression) -> None:
    with sdk(server.url, compression=compression) as client:
        check_reply(client.system_one(STATE, QUESTIONS))
        long = {**STATE, "history": "An earlier mail about the invoice. " * 60}
        check_reply(client.system_one(long, QUESTIONS))
        assert client.models.list().models[0].name == "systone-mini"


async def test_async_typesafe_sdk_reads_every_answer(server) -> None:
    async with sdk(server.url, AsyncTypeSafeClient) as client:
        check_reply(await client.system_one(STATE, QUESTIONS))


def test_typesafe_sdk_shows_our_sentence_for_a_bad_request(server) -> None:
    options = {f"o{i}": None for i in range(256)}
    with sdk(server.url) as client:
        with pytest.raises(TypeSafeAPIError) as caught:
            client.system_one("x", {"q": {"type": "choice", "criteria": options}})
        assert caught.value.status == 422
        assert "255" in str(caught.value)
        many = {f"n{i}": Noul(instructions=f"Is {i} odd?") for i in range(300)}
        assert len(client.system_one("hi", many).answers) == 300


def test_openai_client_reads_decisions(server) -> None:
    check_openai(server.url)


def check_openai(url: str) -> None:
    client = openai.OpenAI(api_key="local", base_url=f"{url}/v1", max_retries=0, timeout=60)
    questions: list[dict[str, Any]] = [
        {"type": "predicate", "name": "damaged", "instructions": "The item arrived damaged."},
        {
            "type": "choice",
            "name": "typed",
            "instructions": "Is it urgent?",
            "choices": [{"value": True}, {"value": "true"}, {"value": False}],
        },
        {
            "type": "score",
            "instructions": "How bad?",
            "levels": [{"label": "cosmetic"}, {"label": "broken", "description": "unusable"}],
        },
    ]
    message = {"role": "user", "content": [{"type": "input_text", "text": "It is cracked."}]}
    for given in ("The screen is cracked.", [message]):
        reply = client.decisions.create(model="jev-latest", input=given, questions=questions)
        assert [(a.type, a.name) for a in reply.answers] == [
            ("predicate", "damaged"),
            ("choice", "typed"),
            ("score", None),
        ]
        assert [p.value for p in reply.answers[1].probabilities] == [True, "true", False]
        assert [(p.value, p.label) for p in reply.answers[2].probabilities] == [
            (0, "cosmetic"),
            (1, "broken"),
        ]
        assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens
    with pytest.raises(openai.BadRequestError) as caught:
        client.decisions.create(model="jev-latest", input="x", questions=[])
    assert caught.value.body["message"]
    client.close()


def jevcompat(url: str, out: Path, model: str = "jev-latest") -> dict[str, int]:
    """Failed requirements per level, after a run that must end conformant."""
    tool = Path(sys.executable).with_name("jevcompat")
    done = subprocess.run(
        [tool, "test", url, "--model", model, "--json", str(out)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(out.read_text())["results"]
    failed = [r for r in results if r["status"] == "fail"]
    return {level: sum(r["level"] == level for r in failed) for level in ("MUST", "SHOULD")}


@pytest.mark.slow
def test_jevcompat_finds_every_requirement_met(server, tmp_path) -> None:
    assert jevcompat(server.url, tmp_path / "report.json") == {"MUST": 0, "SHOULD": 0}


@pytest.mark.slow
def test_jevcompat_finds_the_exact_dialect_conformant(start_server, tmp_path) -> None:
    exact = start_server("--dialect", "jev-exact")
    assert jevcompat(exact.url, tmp_path / "report.json")["MUST"] == 0
