"""Many callers at once: everybody gets exactly their own answer, the same as alone.

Each test is a public kind of fault restated (its name opens the docstring)."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import httpx

COLOURS = ("green", "red", "blue", "yellow", "black", "white", "orange", "purple")


def crate_request(number: int) -> dict[str, Any]:
    rng = random.Random(number)
    mine, *others = rng.sample(range(1000, 9999), 4)
    colour, *rest = rng.sample(COLOURS, 3)
    numbers = [mine, *others]
    shades = [colour, *rest]
    rng.shuffle(numbers)
    rng.shuffle(shades)
    return {
        "state": f"Crate {mine} is painted {colour}.",
        "questions": {
            f"num-{number}": {
                "type": "choice",
                "instructions": "Which crate number is named?",
                "criteria": {str(n): None for n in numbers},
            },
            f"col-{number}": {
                "type": "choice",
                "instructions": "Which colour is named?",
                "criteria": dict.fromkeys(shades),
            },
        },
    }


async def send_all(url: str, bodies: list[dict[str, Any]], connections: int) -> list[Any]:
    limits = httpx.Limits(max_connections=connections)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
        replies = await asyncio.gather(*(client.post("/v1/systemone", json=b) for b in bodies))
    assert {reply.status_code for reply in replies} == {200}
    return [reply.json()["answers"] for reply in replies]


async def test_each_of_many_callers_gets_their_own_answer(server) -> None:
    """concurrent-identity"""
    bodies = [crate_request(i) for i in range(200)]
    bodies += bodies[::10]
    together = await send_all(server.url, bodies, connections=40)
    for body, answers in zip(bodies, together, strict=True):
        assert list(answers) == list(body["questions"])
        for name, question in body["questions"].items():
            assert list(answers[name]["probabilities"]) == list(question["criteria"])
    assert together[200:] == together[:200:10]  # the same request twice: the same bits
    alone = await send_all(server.url, bodies[:40], connections=1)
    assert alone == together[:40]


async def test_answers_do_not_depend_on_what_else_is_in_flight(server) -> None:
    """batch-composition"""
    probe = {
        "state": "The 07:40 ferry is cancelled because of fog. The 09:10 sailing takes both loads.",
        "questions": {
            "late": {"type": "noul", "instructions": "Is any sailing expected to leave late?"},
            "load": {
                "type": "choice",
                "instructions": "What happens to the 07:40 passengers?",
                "criteria": {
                    "moved": "They travel on a later sailing",
                    "refunded": "They only get their money back",
                },
            },
            "calm": {"type": "score", "criteria": ["calm sea", "breeze", "storm"]},
        },
    }
    (alone,) = await send_all(server.url, [probe], connections=1)
    rng = random.Random(7)
    crowd = [
        {**probe, "state": " ".join(rng.choices(["gate", "fog", "late", "pier"], k=size))}
        for size in rng.choices(range(1, 400), k=31)
    ]
    answers = await send_all(server.url, [*crowd[:16], probe, *crowd[16:], probe], connections=33)
    assert answers[16] == answers[-1] == alone


async def test_callers_that_leave_disturb_nobody(server) -> None:
    """cancel-frees"""
    bodies = [crate_request(i) for i in range(60)]
    expected = await send_all(server.url, bodies, connections=4)
    rng = random.Random(3)
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:

        async def call(body: dict[str, Any], patience_s: float) -> Any:
            async with asyncio.timeout(patience_s):
                return (await client.post("/v1/systemone", json=body)).json()["answers"]

        calls = [call(b, 0.004 if rng.random() < 0.3 else 60) for b in bodies]
        replies = await asyncio.gather(*calls, return_exceptions=True)
    stayed = [
        (got, want) for got, want in zip(replies, expected, strict=True) if isinstance(got, dict)
    ]
    assert len(stayed) >= 30
    assert all(got == want for got, want in stayed)
    assert all(isinstance(r, dict | TimeoutError) for r in replies)
    assert server.client.get("/health").status_code == 200
