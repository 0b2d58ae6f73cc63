"""A Kev over the engine and the server: both dialects, its extra routes, errors and headers."""

import json
from collections.abc import Iterator

import httpx
import pytest

from oracles import kev_answers, kev_prompts
from systone.config import EngineConfig, ServerConfig
from systone.engine import Engine
from systone.server.app import create_app

BODY = {
    "state": {"mail": "The crate came open.", "lines": [1.0, None, True]},
    "questions": {
        "desk": {"type": "choice", "instructions": "Which?", "criteria": {"a": "A", "b": None}},
        "late": {"type": "noul", "instructions": "Is it late?"},
        "harm": {"type": "score", "instructions": "How bad?", "criteria": ["fine", "torn", "gone"]},
    },
}


@pytest.fixture(scope="module")
def engine(serve) -> Iterator[Engine]:
    with Engine([serve(start=False)], EngineConfig(warmup=False)) as running:
        yield running


@pytest.fixture
def client(engine):
    def connect(**settings) -> httpx.AsyncClient:
        app = create_app(engine, ServerConfig(**settings))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://test", timeout=60)

    return connect


@pytest.fixture
def kev(client) -> httpx.AsyncClient:
    return client(dialect="kev")


@pytest.mark.parametrize("name", [None, "kev-latest", "jev-latest", "kev-4b"])
async def test_the_default_dialect_answers_to_the_models_names(client, name):
    body = BODY if name is None else {**BODY, "model": name}
    reply = await client().post("/v1/systemone", json=body)
    assert reply.status_code == 200
    found = reply.json()
    assert found["model"] == "kev-4b"
    assert list(found["answers"]["desk"]) == ["type", "choice", "probabilities", "confidence"]
    assert reply.headers["x-systone-model"].startswith("kev-4b@")


async def test_the_default_dialect_refuses_a_model_that_is_not_served(client):
    reply = await client().post("/v1/systemone", json={**BODY, "model": "gpt"})
    assert reply.status_code == 404


async def test_the_listing_has_the_models_limits(client):
    cards = (await client().get("/v1/models")).json()
    names = {card["name"] for card in cards["models"]}
    assert {"kev-4b", "kev-latest", "jev-latest"} <= names


async def test_the_kev_dialects_listing_says_how_the_model_runs(client):
    kev = client(dialect="kev", api_key=("secret",))
    assert (await kev.get("/v1/models")).status_code == 401
    keyed = {"authorization": "Bearer secret"}
    await kev.post("/v1/systemone", json=BODY, headers=keyed)
    cards = (await kev.get("/v1/models", headers=keyed)).json()["models"]
    assert [card["name"] for card in cards] == [
        "kev-latest", "jev-latest", "jev-preview", "kev-4b",
    ]  # fmt: skip
    assert list(cards[0]) == [
        "name", "description", "release_date", "run", "base", "lora", "device", "backend", "dtype",
        "temperature", "max_state_tokens", "truncate_states", "cuda_graphs", "prefix_cache",
        "batches",
    ]  # fmt: skip
    card = cards[0]
    assert card["run"].startswith("kev-4b@")
    assert card["base"].startswith("Qwen/Qwen3.5-4B-Base@")
    assert (card["device"], card["backend"], card["dtype"]) == ("cpu", "torch", "float32")
    assert (card["lora"], card["max_state_tokens"], card["truncate_states"]) == (16, 65_536, False)
    assert card["temperature"] == pytest.approx(2.406, abs=1e-3)
    assert (card["cuda_graphs"], card["prefix_cache"]) == (False, 0)
    assert card["batches"] >= 1


async def test_the_kev_dialects_reply(kev, tokenizer):
    reply = await kev.post("/v1/systemone", json={**BODY, "model": "anything at all"})
    assert reply.status_code == 200, reply.text
    found = reply.json()
    assert list(found) == ["model", "answers", "usage", "latency_ms"]
    assert found["model"] == "anything at all"
    assert list(found["answers"]) == ["desk", "late", "harm"]
    assert list(found["answers"]["desk"]) == ["type", "choice", "confidence", "probabilities"]
    assert list(found["answers"]["late"]) == ["type", "noul"]
    assert list(found["answers"]["harm"]) == [
        *("type", "score", "legend", "probabilities", "confidence")
    ]

    def encode(text: str) -> list[int]:
        return tokenizer.backend.encode(text, add_special_tokens=False).ids

    assert found["usage"] == {
        "input_tokens": kev_prompts.pack(BODY, encode).input_tokens,
        "output_tokens": kev_answers.output_tokens(found["answers"], encode),
    }
    assert found["latency_ms"] == round(found["latency_ms"], 1) > 0


@pytest.mark.parametrize("state", [None, 7, False, "", []])
async def test_the_kev_dialect_takes_any_json_as_text(kev, state):
    questions = {
        "n": {"type": "noul"},
        "s": {"type": "score", "instructions": 3, "criteria": [None, 1.5, {"a": []}]},
        "c": {"type": "choice", "criteria": {"x": False, "y": 0}},
    }
    reply = await kev.post("/v1/systemone", json={"state": state, "questions": questions})
    assert reply.status_code == 200, reply.text
    assert reply.json()["answers"]["s"]["legend"] == {"0": "", "1": "1.5", "2": "a:\n"}
    assert reply.json()["model"] == "kev-latest"


async def test_the_kev_dialects_headers(kev):
    sent = {"x-typesafe-request-id": "mine-1"}
    reply = await kev.post("/v1/systemone", json=BODY, headers=sent)
    assert reply.headers["x-typesafe-request-id"] == "mine-1"
    assert "app;dur=" in reply.headers["server-timing"]


@pytest.mark.parametrize(
    "body",
    [
        {"questions": BODY["questions"]},
        {"state": "s", "questions": {}},
        {"state": "s", "questions": {"q": {"type": "score", "criteria": []}}},
        {"state": "s", "questions": {"q": {"type": "choice", "criteria": {}}}},
        {"state": "s", "questions": {"q": {"type": "rank"}}},
        {"state": "s", "questions": {"q": {"type": "score", "criteria": ["x"] * 256}}},
    ],
)
async def test_the_kev_dialect_lists_faults_of_a_body(kev, body):
    reply = await kev.post("/v1/systemone", json=body)
    assert reply.status_code == 422
    assert isinstance(reply.json()["detail"], list)


async def test_an_overflow_is_a_sentence_in_the_kev_dialect(engine, kev, monkeypatch):
    (served,) = engine._running()[0].served
    adapter = served.loaded.adapter
    monkeypatch.setattr(adapter, "limits", type(adapter.limits)(state=8, row=8))
    reply = await kev.post("/v1/systemone", json=BODY)
    assert reply.status_code == 422
    assert reply.json()["detail"].startswith("state is 25 tokens, over the 8-token limit")


async def test_a_missing_key_is_refused_in_the_references_words(client):
    reply = await client(dialect="kev", api_key=("k",)).post("/v1/systemone", json=BODY)
    assert reply.status_code == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    assert reply.json() == {
        "detail": "missing or invalid API key; send Authorization: Bearer <KEV_API_KEY>"
    }


async def test_separate_asks_every_question_alone(kev):
    together = (await kev.post("/v1/systemone", json=BODY)).json()
    apart = (await kev.post("/v1/systemone/separate", json=BODY)).json()
    assert list(apart) == ["model", "answers", "usage", "latency_ms"]
    assert list(apart["answers"]) == list(together["answers"])
    assert abs(apart["answers"]["late"]["noul"] - together["answers"]["late"]["noul"]) < 2e-4
    alone = 0
    for name, question in BODY["questions"].items():
        one = {"state": BODY["state"], "questions": {name: question}}
        alone += (await kev.post("/v1/systemone", json=one)).json()["usage"]["input_tokens"]
    assert apart["usage"]["input_tokens"] == alone > together["usage"]["input_tokens"]


async def test_permute_shows_how_order_moves_an_answer(kev):
    call = {"request": BODY, "question": "desk", "n_perm": 5, "seed": 3}
    found = (await kev.post("/v1/systemone/permute", json=call)).json()
    again = (await kev.post("/v1/systemone/permute", json=call)).json()
    assert [run["order"] for run in found["runs"]] == [run["order"] for run in again["runs"]]
    assert found["runs"][0]["order"] == ["a", "b"]
    assert {tuple(run["order"]) for run in found["runs"]} == {("a", "b"), ("b", "a")}
    shares = [run["probabilities"]["a"] for run in found["runs"]]
    assert found["spread"] == round(max(shares) - min(shares), 4) > 0
    assert found["argmax_stable"] == (len({run["choice"] for run in found["runs"]}) == 1)


@pytest.mark.parametrize(
    "change",
    [{"question": "gone"}, {"question": "late"}, {"n_perm": 65}, {"n_perm": 0}, {"seed": "x"}],
)
async def test_permute_refuses_what_it_cant_permute(kev, change):
    call = {"request": BODY, "question": "desk", **change}
    reply = await kev.post("/v1/systemone/permute", json=call)
    assert reply.status_code == 422
    assert reply.json()["detail"][0]["loc"] == ["body", *change]


async def test_the_extra_routes_belong_to_the_kev_dialect(client):
    for path in ("permute", "separate"):
        reply = await client().post(f"/v1/systemone/{path}", content=json.dumps(BODY))
        assert reply.status_code == 404


PAGE = {"origin": "https://page.example"}


async def test_pages_of_any_origin_may_ask_a_kev_server(client):
    """Refusals too: a page couldn't read them otherwise. A preflight needs no key."""
    kev = client(dialect="kev", api_key=("secret",))
    asked = {
        **PAGE,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type",
    }
    preflight = await kev.options("/v1/systemone", headers=asked)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert preflight.headers["access-control-allow-headers"] == "authorization, content-type"
    refused = await kev.post("/v1/systemone", json=BODY, headers=PAGE)
    assert refused.status_code == 401
    keyed = {**PAGE, "authorization": "Bearer secret"}
    answered = await kev.post("/v1/systemone", json=BODY, headers=keyed)
    assert answered.status_code == 200
    for reply in (refused, answered):
        assert reply.headers["access-control-allow-origin"] == "*"
        assert "x-typesafe-request-id" in reply.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in reply.headers


async def test_other_dialects_let_no_page_ask(client):
    reply = await client().post("/v1/systemone", json=BODY, headers=PAGE)
    assert reply.status_code == 200
    assert "access-control-allow-origin" not in reply.headers
