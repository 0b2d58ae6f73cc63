"""Answers over HTTP against the rollback server: the same FP32 scores, however many call at once.

Two server processes on the device: one as served by default, one with `--pack off` (one row a
forward, eager, nothing shared), asked one request at a time. Every raw score and every probability
of a reply must be the other's, as JSON numbers that read back to the same double.
Rows: {name, rows, requests, equal, modes, compilations_since_ready, within: that these are none}.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from systone.bench.server_process import served

REQUESTS = 32
CALLERS = 32
ROUNDS = 20  # requests of each caller
WORDS = ("parcel", "mill", "lemon", "crate", "invoice", "harbour", "ticket", "meadow", "copper",
         "engine", "window", "barrel", "letter", "garden", "signal", "kettle")  # fmt: skip
Body = Mapping[str, Any]
Reply = Mapping[str, Any]
Asked = Sequence[tuple[int, Reply]]  # which request, what came back


def http_rows(model: str = "synth:open-jev-9b", device: str = "cuda") -> Iterator[dict[str, Any]]:
    """Checks of one model; both servers load it."""
    flags = ["--device", device, "--extras", "on", "--deadline-s", "none"]
    out = Path(os.environ.get("OUT", "."))
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        started = [
            pool.submit(
                stack.enter_context, served(model, given, out / name, lambda _: None)
            )
            for given, name in ((flags, "http.log"), ([*flags, "--pack", "off"], "pack_off.log"))
        ]  # fmt: skip
        normal, rollback = (found.result().url for found in started)
        yield from compare(normal, rollback)


def compare(normal: str, rollback: str) -> Iterator[dict[str, Any]]:
    """The checks of two running servers."""
    made = bodies()
    truth = dict(one_at_a_time(rollback, made))
    yield _row("HTTP, one at a time", normal, truth, one_at_a_time(normal, made))
    order = [random.Random(caller).choices(range(REQUESTS), k=ROUNDS) for caller in range(CALLERS)]
    at_once = asyncio.run(_concurrently(normal, made, order))
    yield _row(f"HTTP, {CALLERS} callers at once", normal, truth, at_once)
    name = f"HTTP, one at a time after {len(at_once) + REQUESTS} mixed requests"
    yield _row(name, normal, truth, one_at_a_time(normal, made))


def bodies() -> list[Body]:
    """Requests of every question type: states of 3 to about 1,500 words, 1 to 3 questions.
    The rollback server takes some 60 ms a row, so few have many options."""
    made = []
    for seed in range(REQUESTS):
        rng = random.Random(seed)
        words = lambda n, rng=rng: " ".join(rng.choices(WORDS, k=n))  # noqa: E731
        length = rng.choice((3, 12, 40, 120, 400, 1500 if seed % 8 == 0 else 60))
        most = 24 if seed % 16 == 0 else 6
        questions = {f"q{i}": _question(rng, words, most) for i in range(rng.randint(1, 3))}
        made.append({"state": f"{seed}: {words(length)}", "questions": questions})
    return made


def _question(rng: random.Random, words: Any, most: int) -> dict[str, Any]:
    kind = rng.choice(("choice", "noul", "score"))
    asked: dict[str, Any] = {"type": kind, "instructions": f"{words(rng.randint(2, 30))}?"}
    if kind == "choice":
        names = [f"{word}{i}" for i, word in enumerate(rng.choices(WORDS, k=rng.randint(2, most)))]
        asked["criteria"] = {name: words(rng.randint(1, 12)) for name in names}
    elif kind == "score":
        asked["criteria"] = [words(rng.randint(1, 9)) for _ in range(rng.randint(2, 5))]
    return asked


def one_at_a_time(url: str, made: Sequence[Body]) -> Asked:
    with httpx.Client(base_url=url, timeout=120) as client:
        return [(i, _read(client.post("/v1/systemone", json=body))) for i, body in enumerate(made)]


async def _concurrently(url: str, made: Sequence[Body], order: Sequence[Sequence[int]]) -> Asked:
    """Every caller asks its requests one after another."""

    async def caller(mine: Sequence[int]) -> Asked:
        async with httpx.AsyncClient(base_url=url, timeout=120) as client:
            return [(i, _read(await client.post("/v1/systemone", json=made[i]))) for i in mine]

    found = await asyncio.gather(*(caller(mine) for mine in order))
    return [pair for pairs in found for pair in pairs]


def _read(reply: httpx.Response) -> Reply:
    """What must be equal of a reply: raw scores and every number of the answers."""
    assert reply.status_code == 200, reply.text
    body = reply.json()
    return {"scores": body["x_systone"]["scores"], "answers": body["answers"]}


def _row(name: str, url: str, truth: Mapping[int, Reply], found: Asked) -> dict[str, Any]:
    same = all(reply == truth[i] for i, reply in found)
    scored = sum(len(scores) for _, reply in found for scores in reply["scores"].values())
    with httpx.Client(base_url=url) as client:
        said = client.get("/health").json()["models"][0]["modes"]
    check = said.get("selfcheck")
    ran = check is not None and check["refused"] == 0
    compiled = said.get("compilations_since_ready")
    return {
        "name": name, "rows": scored, "requests": len(found), "equal": same if ran else None,
        "modes": check, "compilations_since_ready": compiled, "within": compiled == 0,
        "launches": said.get("launches", {}).get("passes"),
    }  # fmt: skip
