"""Sixty-four callers at once for a minute: everybody gets their own answer, the serial one."""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any

import httpx
import pytest

from systone.config import ModelSettings
from systone.engine import Engine
from systone.protocol import systemone
from systone.protocol.jsontext import dumps
from tests.numerics import GOLDEN_ANSWER_ABS

pytestmark = pytest.mark.slow

CLIENTS = 64
SECONDS = 60.0
LEAVING = 0.1  # share of calls whose caller leaves before the answer
GOODS = ("lamp", "kettle", "chair", "radio", "carpet", "mirror", "clock", "basket")


def request_of(client: int) -> dict[str, Any]:
    rng = random.Random(client)
    goods = rng.sample(GOODS, 3)
    return {
        "state": f"Order {client * 7919}: the {goods[0]} came {rng.choice(['late', 'broken'])}.",
        "questions": {
            f"what-{client}": {
                "type": "choice",
                "instructions": "Which item is meant?",
                "criteria": dict.fromkeys(goods),
            },
            f"bad-{client}": {"type": "noul", "instructions": f"Is the {goods[1]} concerned?"},
        },
    }


def serial_answers(package: Any, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each request alone, one row a forward, nothing shared."""
    with Engine([ModelSettings(source=str(package), pack=False)]) as engine:
        decisions = [
            engine.submit(systemone.parse(dumps(body), dialect="default")).result()
            for body in bodies
        ]
    return [
        json.loads(systemone.render(d, dialect="default", extras=False))["answers"]
        for d in decisions
    ]


def check(got: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(got) == list(expected)
    for name, answer in got.items():
        wanted = expected[name]
        if answer["type"] == "noul":
            assert abs(answer["noul"] - wanted["noul"]) <= GOLDEN_ANSWER_ABS
            continue
        assert list(answer["probabilities"]) == list(wanted["probabilities"])
        for option, p in answer["probabilities"].items():
            assert abs(p - wanted["probabilities"][option]) <= GOLDEN_ANSWER_ABS


async def test_each_caller_gets_exactly_their_own_answers(jev_server, package) -> None:
    bodies = [request_of(i) for i in range(CLIENTS)]
    expected = serial_answers(package, bodies)
    end = time.monotonic() + SECONDS
    counts = {"answered": 0, "left": 0}

    async def caller(index: int) -> None:
        rng = random.Random(1000 + index)
        async with httpx.AsyncClient(base_url=jev_server.url, timeout=300) as client:
            while time.monotonic() < end:
                leaves = rng.random() < LEAVING
                try:
                    async with asyncio.timeout(rng.uniform(0.001, 0.2) if leaves else 300):
                        reply = await client.post("/v1/systemone", json=bodies[index])
                except TimeoutError:
                    counts["left"] += 1
                    continue
                assert reply.status_code == 200, reply.text
                check(reply.json()["answers"], expected[index])
                counts["answered"] += 1

    await asyncio.gather(*(caller(i) for i in range(CLIENTS)))
    assert counts["answered"] >= CLIENTS
    assert counts["left"] > 0
    health = jev_server.client.get("/health").json()
    assert health["status"] == "ready"
    assert health["models"][0]["queue_depth"] == 0
