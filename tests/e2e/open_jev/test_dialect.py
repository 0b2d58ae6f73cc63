"""`--dialect open-jev`: that model's own acceptance, error bodies, statuses and metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import Server, launch
from tests.e2e.open_jev.conftest import ENV, VECTOR_A, VECTOR_A_USAGE

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dialect(package) -> Iterator[Server]:
    log = package.with_name("dialect.log")
    running = launch(log, "--model", str(package), "--dialect", "open-jev", env=ENV)
    yield running
    running.stop()


def test_metadata_carries_exactly_the_prefix_cache_fields(dialect) -> None:
    reply = dialect.post("/v1/systemone", VECTOR_A)
    assert reply.status_code == 200, reply.text
    body = reply.json()
    assert body["usage"] == {"input_tokens": VECTOR_A_USAGE, "output_tokens": 0}
    cache = body["metadata"]["prefix_cache"]
    assert list(cache) == ["policy", "enabled", "scope", "saved_tokens"]
    assert cache["policy"] == "default"
    assert cache["enabled"] is True
    assert cache["scope"] == "across_questions"
    assert body["metadata"]["candidate_sequences"] == 7
    assert body["metadata"]["max_length"] == 4096


@pytest.mark.parametrize("name", ["open-jev", "jev-latest", "open-jev-9b", "Qwen/Qwen3.5-9B", None])
def test_accepted_model_names(dialect, name) -> None:
    body = {**VECTOR_A, "questions": {"r": VECTOR_A["questions"]["refund_review"]}}
    reply = dialect.post("/v1/systemone", body | ({"model": name} if name else {}))
    assert reply.status_code == 200, reply.text
    assert reply.json()["model"] == "Qwen/Qwen3.5-9B"


NOUL = {"type": "noul", "instructions": "?"}


@pytest.mark.parametrize(
    "body",
    [
        {"state": "x", "questions": {"q": NOUL}, "model": "someone-else"},
        {"state": "x", "questions": {"q": {"type": "noul"}}},
        {"state": "x", "questions": {"q": {"type": "choice", "criteria": {"a": None}}}},
        {"state": "x", "questions": {"q": {**NOUL, "criteria": {"true": "only"}}}},
        {"state": "x", "questions": {"q": {**NOUL, "criteria": {"true": "a", "false": None}}}},
        {"state": "x", "questions": {"q": {**NOUL, "type": "score", "criteria": ["one"]}}},
        {"state": 5, "questions": {"q": NOUL}},
        {"state": "x", "questions": {}},
        {"state": "word " * 5000, "questions": {"q": NOUL}},
    ],
)
def test_what_the_reference_refuses_is_refused_in_its_form(dialect, body) -> None:
    reply = dialect.post("/v1/systemone", body)
    assert reply.status_code == 422, reply.text
    error: Any = reply.json()
    assert list(error) == ["error"]
    assert isinstance(error["error"], str)


def test_other_statuses_have_the_same_form(dialect) -> None:
    text = dialect.client.post(
        "/v1/systemone", content=b"x", headers={"content-type": "text/plain"}
    )
    assert (text.status_code, list(text.json())) == (415, ["error"])
    huge = dialect.client.post(
        "/v1/systemone",
        content=b'{"state":"' + b"x" * (4 << 20) + b'"}',
        headers={"content-type": "application/json"},
    )
    assert (huge.status_code, list(huge.json())) == (413, ["error"])
    assert list(dialect.client.get("/nowhere").json()) == ["error"]
