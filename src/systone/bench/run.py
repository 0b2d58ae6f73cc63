"""Runs a plan: makes each block's texts, has its target answer them, keeps every record.

Targets are interchangeable: a server through the client process, or a peer in this process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from systone.bench.asking import Outcome
from systone.bench.client_process import ClientProcess, Job
from systone.bench.items import Workload
from systone.bench.loops import arrivals_ns
from systone.bench.null_server import null_server
from systone.bench.plan import WARMUP_ROUND, Block, Level, Plan
from systone.bench.plan import Target as TargetName
from systone.bench.probe import ServerProbe
from systone.bench.records import Record
from systone.bench.replies import Expectation
from systone.bench.wire import Address

__all__ = [
    "HttpTarget",
    "Results",
    "RunStoppedError",
    "Target",
    "client_alone",
    "request_digest",
    "run_plan",
]

Progress = Callable[[str, int], None]  # what is running, requests done in all
NULL_REQUESTS = 200


@dataclass(frozen=True, slots=True)
class Questions:
    """A block's requests: bodies, what is expected of each, ids, and when they are due."""

    bodies: tuple[bytes, ...]
    expected: tuple[Expectation, ...]
    ids: tuple[str, ...]
    workers: int
    due_ns: tuple[int, ...] | None


class Target(Protocol):
    """Something that answers blocks of requests."""

    def answer(self, asked: Questions, progress: Callable[[int], None]) -> list[Outcome]:
        """An outcome per request, in order."""

    def modes(self) -> dict[str, Any]:
        """Effective modes by model."""

    def sample(self) -> dict[str, Any]:
        """Memory and device time now, as `ServerProbe.sample`."""


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """A server, asked by the client process."""

    address: Address
    client: ClientProcess
    probe: ServerProbe
    timeout_s: float

    def answer(self, asked: Questions, progress: Callable[[int], None]) -> list[Outcome]:
        requests = tuple(
            self.address.encode(body, id_)
            for body, id_ in zip(asked.bodies, asked.ids, strict=True)
        )
        job = Job(
            self.address, requests, asked.expected, asked.workers, asked.due_ns, self.timeout_s
        )
        return self.client.run(job, progress)

    def modes(self) -> dict[str, Any]:
        return self.probe.modes()

    def sample(self) -> dict[str, Any]:
        return self.probe.sample()


class RunStoppedError(Exception):
    """Raised by a progress callback: nothing more is to be asked. The levels that were asked
    whole by then are a run of their own."""


@dataclass(frozen=True, slots=True)
class Results:
    """`samples`: what each target said of itself around each block. `levels`: those that were asked
    whole."""

    records: list[Record]
    samples: list[dict[str, Any]]
    levels: tuple[Level, ...] = ()


def run_plan(
    plan: Plan,
    workload: Workload,
    targets: Mapping[TargetName, Target],
    progress: Progress,
    *,
    model: str | None = None,
    wanted: Mapping[str, str] | None = None,
) -> Results:
    """Run every block in order. `model`: the model field of requests; `wanted`: digests of the
    answers that requests must give, by the requests' digests.

    A run that `progress` stops keeps its whole levels; RunStoppedError if there is none."""
    results = Results([], [])
    try:
        _run_blocks(plan, workload, targets, progress, results, model, wanted or {})
    except RunStoppedError:
        rounds = len(plan.parts()) * plan.rounds * len(plan.targets)
        done = [
            level
            for level in plan.levels
            if sum(_measures(sample, level) for sample in results.samples) == rounds
        ]
        if not done:
            raise
        keys = {level.key for level in done}
        return Results(
            [record for record in results.records if record.level in keys],
            [sample for sample in results.samples if sample["level"] in keys],
            tuple(done),
        )
    return replace(results, levels=plan.levels)


def _measures(sample: Mapping[str, Any], level: Level) -> bool:
    return bool(sample["level"] == level.key and sample["round"] != WARMUP_ROUND)


def _run_blocks(
    plan: Plan,
    workload: Workload,
    targets: Mapping[TargetName, Target],
    progress: Progress,
    results: Results,
    model: str | None,
    wanted: Mapping[str, str],
) -> None:
    sent = 0
    for block in plan.blocks():
        target = targets[block.target]
        asked = _questions(plan, workload, block, model)
        name = f"{block.target} {block.level.key} " + (
            "warm-up" if block.round == WARMUP_ROUND else f"round {block.round + 1}"
        )
        before = target.sample()
        outcomes = target.answer(asked, lambda n, name=name, sent=sent: progress(name, sent + n))  # type: ignore[misc]
        results.samples.append(
            {
                "target": block.target,
                "level": block.level.key,
                "round": block.round,
                "part": block.part,
                "before": before,
                "after": target.sample(),
            }
        )
        results.records.extend(_records(block, workload, asked, outcomes, wanted))
        sent += len(outcomes)
        progress(name, sent)


def client_alone(
    workload: Workload, levels: Sequence[Level], client: ClientProcess, progress: Progress
) -> list[Record]:
    """The client against a server without a model, at the lowest and the highest concurrency."""
    count = len(workload.items)
    samples = [Expectation.of(workload.make(i, 0)).sample() for i in range(count)]
    replies = [json.dumps(sample).encode() for sample in samples]
    amounts = sorted({int(level.amount) for level in levels if level.mode == "closed"} or {1})
    records: list[Record] = []
    with null_server(replies) as address:
        target = HttpTarget(address, client, ServerProbe(address), timeout_s=60.0)
        for amount in dict.fromkeys((amounts[0], amounts[-1])):
            level = Level("closed", amount)
            number = max(NULL_REQUESTS, 4 * amount)
            items = tuple(i % count for i in range(number))
            plan = Plan(count, (level,))
            block = Block("null", level, 0, 0, 0, items)
            asked = _questions(plan, workload, block, None)
            outcomes = target.answer(asked, lambda _: progress("client alone", 0))
            records += _records(block, workload, asked, outcomes, {})
    return records


def request_digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:24]


def _questions(plan: Plan, workload: Workload, block: Block, model: str | None) -> Questions:
    named = {} if model is None else {"model": model}
    requests = [{**named, **workload.make(index, block.variant)} for index in block.items]
    level, due_ns = block.level, None
    if block.round == WARMUP_ROUND:
        workers = level.workers(len(requests)) if level.mode == "closed" else 1
    else:
        workers = level.workers(len(requests))
        if level.mode == "open":
            seed = f"{plan.seed}:{level.key}:{block.round}:{block.part}"
            due_ns = tuple(arrivals_ns(level.amount, len(requests), seed))
    return Questions(
        bodies=tuple(_encoded(request) for request in requests),
        expected=tuple(Expectation.of(request) for request in requests),
        ids=tuple(f"{level.key}.{block.round}.{block.part}.{index}" for index in block.items),
        workers=workers,
        due_ns=due_ns,
    )


def _encoded(request: dict[str, Any]) -> bytes:
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()


def _records(
    block: Block,
    workload: Workload,
    asked: Questions,
    outcomes: Sequence[Outcome],
    wanted: Mapping[str, str],
) -> list[Record]:
    zero = min(o.begin_ns if o.due_ns is None else o.due_ns for o in outcomes)
    records = []
    for place, outcome in enumerate(outcomes):
        digest = request_digest(asked.bodies[place])
        records.append(
            Record(
                target=block.target,
                level=block.level.key,
                round=block.round,
                part=block.part,
                place=place,
                variant=block.variant,
                item=workload.items[block.items[place]].key,
                begin_ns=outcome.begin_ns - zero,
                wall_ns=outcome.wall_ns,
                due_ns=None if outcome.due_ns is None else outcome.due_ns - zero,
                status=outcome.status,
                failure=outcome.failure,
                input_tokens=outcome.input_tokens,
                request=digest,
                answers=outcome.answers,
                expected=wanted.get(digest),
                server_ms=outcome.server_ms,
                sent_bytes=len(asked.bodies[place]),
                received_bytes=outcome.received_bytes,
            )
        )
    return records
