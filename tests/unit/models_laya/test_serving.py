"""Beside systone-mini in one process, through the engine and the HTTP application."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from systone.config import ModelSettings, ServerConfig
from systone.engine import Engine
from systone.server.app import create_app

QUESTIONS = {
    "desk": {
        "type": "choice",
        "instructions": "Which desk?",
        "criteria": {"mail": None, "cash": "money"},
    },
    "wet": {"type": "noul", "instructions": "Is it wet?"},
    "size": {"type": "score", "instructions": "How large?", "criteria": ["small", "large"]},
}
LAYA = "laya-synthetic-tiny"


@pytest.fixture(scope="module")
def engine(load: Callable[..., Any], checkpoint) -> Iterator[Engine]:
    with Engine(["systone-mini", load()]) as running:
        yield running


@pytest.fixture
def client(engine: Engine) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_app(engine, ServerConfig(extras=True)))
    return httpx.AsyncClient(transport=transport, base_url="http://test", timeout=60)


async def ask(client: httpx.AsyncClient, model: str, questions: dict[str, Any]) -> dict[str, Any]:
    body = {"model": model, "state": {"note": "The crate leaks."}, "questions": questions}
    reply = await client.post("/v1/systemone", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_both_models_answer_by_name(client) -> None:
    for model in (LAYA, "systone-mini"):
        reply = await ask(client, model, QUESTIONS)
        assert reply["model"] == model
        assert list(reply["answers"]) == list(QUESTIONS)
        assert sum(reply["answers"]["desk"]["probabilities"].values()) == pytest.approx(1)
        assert reply["usage"]["input_tokens"] > 0


async def test_names_order_and_company_of_questions_change_nothing(client) -> None:
    together = (await ask(client, LAYA, QUESTIONS))["answers"]
    backwards = (await ask(client, LAYA, dict(reversed(QUESTIONS.items()))))["answers"]
    for id, question in QUESTIONS.items():
        alone = (await ask(client, LAYA, {"renamed": question}))["answers"]
        assert alone["renamed"] == together[id] == backwards[id]


async def test_a_cut_state_is_reported(client) -> None:
    body = {"model": LAYA, "state": "salt " * 400, "questions": {"q": QUESTIONS["wet"]}}
    extras = (await client.post("/v1/systemone", json=body)).json()["x_systone"]
    assert extras["truncated"] is True
    assert extras["state_tokens"] - extras["state_tokens_dropped"] < 320
    assert extras["truncated_questions"]["q"]["state_tokens_dropped"] > 0


async def test_the_listing_has_the_models_own_limits(client) -> None:
    listed = (await client.get("/v1/models")).json()
    (card,) = (m for m in listed["models"] if m["name"] == LAYA)
    assert "encoder" in card["description"]


async def test_too_many_options_for_a_row_is_a_4xx(client) -> None:
    criteria = {f"option {i}": None for i in range(255)}
    question = {"type": "choice", "criteria": criteria}
    body = {"model": LAYA, "state": "s", "questions": {"q": question}}
    reply = await client.post("/v1/systemone", json=body)
    assert reply.status_code == 422
    assert "options fit a row" in reply.text


def test_settings_reach_the_model(load) -> None:
    assert load(truncation="refuse").adapter._refuse
    assert ModelSettings().truncation == "contract"
