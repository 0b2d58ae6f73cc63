"""One `systone bench` run from its options to its folder: servers, client, plan, figures, files."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from systone.bench import plots
from systone.bench.client_process import ClientProcess
from systone.bench.environment import environment
from systone.bench.figures import figures_of
from systone.bench.folder import FORMAT, MANIFEST, dump, new_folder, write_folder
from systone.bench.items import Workload
from systone.bench.plan import Plan, Target
from systone.bench.probe import ServerProbe
from systone.bench.records import from_lines, to_lines
from systone.bench.run import HttpTarget, Results, client_alone, run_plan
from systone.bench.run import Target as Answering
from systone.bench.server_process import Served, served
from systone.bench.tables import markdown
from systone.bench.wire import Address, Connection
from systone.errors import ConfigError
from systone.models import registry

__all__ = ["Options", "Report", "is_url", "run_http", "run_targets"]

Progress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class Options:
    """How a run is made, beside its plan and workload.

    `flags`: of `systone serve`, for a target that is a model. `model`: the model field of requests.
    `equal_to`: the folder of an earlier run whose answers must come again. `draw`: plots too, where
    they can be drawn.
    """

    out: Path
    flags: tuple[str, ...] = ()
    model: str | None = None
    api_key: str | None = None
    timeout_s: float = 120.0
    commit: str | None = None
    equal_to: Path | None = None
    draw: bool = True


@dataclass(frozen=True, slots=True)
class Report:
    """What a run found. `digest`: of its manifest."""

    run: dict[str, Any]
    figures: dict[str, Any]
    digest: str


def is_url(target: str) -> bool:
    return "://" in target


def run_http(
    targets: Mapping[Target, str | Served],
    plan: Plan,
    workload: Workload,
    options: Options,
    show: Progress,
    client: ClientProcess | None = None,
) -> Report:
    """Measure servers by URL, a model by a server started for it, or one that already runs.
    `client`: one to use again; else one is started for this run.

    Raises ConfigError when a server can't be reached or started, before anything is measured."""
    for target in targets.values():
        if isinstance(target, str) and not is_url(target):
            registry.check(target)
    new_folder(options.out)
    with ExitStack() as stack:
        client = client or stack.enter_context(ClientProcess())
        alone = client_alone(workload, plan.levels, client, show)
        answering: dict[Target, Answering] = {}
        for name, target in targets.items():
            address, pid = stack.enter_context(_reached(target, options, show))
            probe = ServerProbe(address, pid)
            answering[name] = HttpTarget(address, client, probe, options.timeout_s)
        results, modes = _measured(plan, workload, answering, options, show)
    named: dict[Target, dict[str, Any]] = {
        name: {
            **_named(target, options),
            "modes": modes[name],
        }
        for name, target in targets.items()
    }
    plan = replace(plan, levels=results.levels)
    results = replace(results, records=[*alone, *results.records])
    return _written(plan, workload, options, named, results)


def run_targets(
    name: str, target: Answering, plan: Plan, workload: Workload, options: Options, show: Progress
) -> Report:
    """Measure one target that answers in this process."""
    new_folder(options.out)
    results, modes = _measured(plan, workload, {"a": target}, options, show)
    named: dict[Target, dict[str, Any]] = {"a": {"name": name, "flags": [], "modes": modes["a"]}}
    return _written(replace(plan, levels=results.levels), workload, options, named, results)


def _measured(
    plan: Plan,
    workload: Workload,
    targets: Mapping[Target, Answering],
    options: Options,
    show: Progress,
) -> tuple[Results, dict[Target, dict[str, Any]]]:
    """The results, and each target's modes as they were when all was done."""
    wanted = None if options.equal_to is None else _answers_of(options.equal_to)
    results = run_plan(plan, workload, targets, show, model=options.model, wanted=wanted)
    return results, {name: target.modes() for name, target in targets.items()}


def _named(target: str | Served, options: Options) -> dict[str, Any]:
    if isinstance(target, Served):
        return {"name": Path(target.model).name, "flags": list(target.flags)}
    if is_url(target):
        return {"name": target, "flags": []}
    return {"name": Path(target).name, "flags": list(options.flags)}


@contextmanager
def _reached(
    target: str | Served, options: Options, show: Progress
) -> Iterator[tuple[Address, int | None]]:
    if isinstance(target, Served):
        yield Address.of(target.url, options.api_key), target.pid
        return
    if is_url(target):
        address = Address.of(target, options.api_key)
        connection = Connection(address, options.timeout_s)
        try:
            connection.open()
        except OSError as error:
            raise ConfigError(f"can't connect to {target}: {error}") from None
        connection.close()
        yield address, None
        return
    log = options.out.with_name(options.out.name + ".server.log")
    with served(target, options.flags, log, lambda line: show(line, 0)) as server:
        yield Address.of(server.url, options.api_key), server.pid


def _written(
    plan: Plan,
    workload: Workload,
    options: Options,
    targets: Mapping[Target, dict[str, Any]],
    results: Results,
) -> Report:
    figures = figures_of(results.records, workload.items, results.samples, plan.seed)
    run = {
        "format": FORMAT,
        "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "workload": _described(workload),
        "plan": {**asdict(plan), "levels": [level.key for level in plan.levels]},
        "targets": dict(targets),
        "model_field": options.model,
        "timeout_s": options.timeout_s,
        "equal_to": None if options.equal_to is None else _digest(options.equal_to / MANIFEST),
        "environment": environment(options.commit),
        "samples": results.samples,
    }
    if options.draw and plots.available():
        plots.draw_run(options.out, results.records, figures, run)
    files = {
        "run.json": dump(run),
        "items.json": dump([asdict(item) for item in workload.items]),
        "records.jsonl.xz": to_lines(results.records),
        "figures.json": dump(figures),
        "tables.md": markdown(run, figures).encode(),
    }
    return Report(run, figures, write_folder(options.out, files))


def _described(workload: Workload) -> dict[str, Any]:
    """Totals of one round, and a digest that pins its first texts."""
    items = workload.items
    counted = all(item.tokens is not None for item in items)
    texts = hashlib.sha256()
    for index in range(len(items)):
        texts.update(dump(workload.make(index, 0)))
    return {
        "name": workload.name,
        "source": workload.source,
        "varies": workload.varies,
        "requests": len(items),
        "decisions": sum(item.questions for item in items),
        "rows": sum(item.rows for item in items),
        "tokens": sum(item.tokens or 0 for item in items) if counted else None,
        "unique_tokens": sum(item.unique or 0 for item in items) if counted else None,
        "texts_sha256": texts.hexdigest(),
    }


def _answers_of(path: Path) -> dict[str, str]:
    """Digests of answers by request, from a run's records. Raises ConfigError."""
    try:
        records = from_lines((path / "records.jsonl.xz").read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"--equal-to {path}: {error}") from None
    found: dict[str, str] = {}
    for record in records:
        if record.target != "a" or record.answers is None:
            continue
        if found.setdefault(record.request, record.answers) != record.answers:
            raise ConfigError(f"--equal-to {path}: one request has two different answers there")
    if not found:
        raise ConfigError(f"--equal-to {path}: no answers there")
    return found


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
