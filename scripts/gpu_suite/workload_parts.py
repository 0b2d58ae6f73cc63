"""The parts of a workload session, the most important first, and how much of each a scale runs."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scripts.gpu_suite.workload_session import Entry, Session, say
from systone.bench.items import Workload
from systone.bench.plan import Level, Plan

SHORT_TOKENS = 256
SOAK_IN_FLIGHT = 64


@dataclass(frozen=True, slots=True)
class Scale:
    """`requests`: of each round, at most; `others`: likewise of the other workloads. A soak is
    `soaks` runs of `soak_rounds` rounds in which every Noul comes `soak_repeats` times: 42,012
    requests at full scale."""

    nine: str = "synth:open-jev-9b"
    large: str = "synth:open-jev-27b-v1.1"
    device: str = "cuda"
    in_flight: tuple[int, ...] = (1, 8, 16, 32, 64)
    rounds: int = 3
    requests: int | None = None
    others: int | None = None
    soaks: int = 2
    soak_rounds: int = 18
    soak_repeats: int = 16
    peer_requests: int = 60
    least: float = 1.0  # of the seconds that a part needs at full scale


FULL = Scale()
SMOKE = Scale(
    in_flight=(1, 16, 64), rounds=1, others=60, soaks=1, soak_rounds=2, peer_requests=10, least=0.2
)
TINY = Scale(
    nine="synth:open-jev-9b:tiny", large="synth:open-jev-27b-v1.1:tiny", device="cpu",
    in_flight=(1, 4), rounds=1, requests=4, others=2, soaks=2, soak_rounds=2, soak_repeats=2,
    peer_requests=2, least=0.2,
)  # fmt: skip


def nine(s: Session, scale: Scale) -> None:
    """Default settings: the shape at every number in flight, a short request, the other workloads,
    the soak."""
    model = scale.nine
    names = ("231-shape", "synthetic-200", "synthetic-48", "jevbench-240", "canary")
    with ThreadPoolExecutor(1) as pool:
        texts = pool.submit(lambda: [s.workload(name) for name in names])
        with s.server(model) as server:
            texts.result()
            shape = s.workload("231-shape").limited(scale.requests, None)
            entry = Entry("9b", "workload", "231-shape", label(model))
            plan = closed(*scale.in_flight, rounds=scale.rounds, same_levels=True)
            s.part(
                "9b",
                160,
                20 * scale.least,
                lambda limit: s.bench(server, entry, plan, shape, limit),
            )
            run_other(s, scale, server, "synthetic-200", (1,), 15)
            run_other(s, scale, server, "jevbench-240", (1, 16, 64), 90)
            run_other(s, scale, server, "canary", (1, 16, 64), 45)
            soak(s, scale, server)


def run_other(
    s: Session, scale: Scale, server: Any, name: str, amounts: tuple[int, ...], limit_s: float
) -> None:
    texts = s.workload(name).limited(scale.others, None)
    entry = Entry(f"9b-{name}", "workload", name, label(scale.nine), workload=name)
    plan = closed(*amounts, rounds=3 if name == "synthetic-200" else 1)
    s.part(
        entry.folder,
        limit_s,
        5 * scale.least,
        lambda limit: s.bench(server, entry, plan, texts, limit),
    )


def soak(s: Session, scale: Scale, server: Any) -> None:
    """Short requests at full load, each answer equal to the one given serially before."""
    shape = s.workload("231-shape").limited(None, SHORT_TOKENS).limited(scale.requests, None)
    nouls = s.workload("synthetic-48").limited(scale.requests, None)
    name = f"short: 231-shape up to {SHORT_TOKENS} tokens, Nouls of 48"
    entry = Entry("9b-serial", "serial", name, label(scale.nine), workload="short")
    serial = closed(1, rounds=1, same_texts=True)
    once, many = mixed(shape, nouls, 1), mixed(shape, nouls, scale.soak_repeats)
    s.part(
        "9b-serial", 20, 5 * scale.least, lambda limit: s.bench(server, entry, serial, once, limit)
    )
    plan = closed(SOAK_IN_FLIGHT, rounds=scale.soak_rounds, same_texts=True)
    for number in range(1, scale.soaks + 1):
        one = replace(entry, folder=f"9b-soak-{number}", role="soak")

        def run(limit_s: float, one: Entry = one) -> None:
            s.bench(server, one, plan, many, limit_s, equal_to="9b-serial")

        s.part(one.folder, 70, 20 * scale.least, run)


def off(s: Session, scale: Scale) -> None:
    """The shape again with nothing shared: the same texts, so every answer must be the same."""
    with s.server(scale.nine, "--policy=off") as server:
        shape = s.workload("231-shape").limited(scale.requests, None)
        entry = Entry("9b-off", "workload", "231-shape", label(scale.nine), sharing="off")
        plan = closed(1, 16, rounds=1, same_levels=True)
        s.part(
            "9b-off",
            60,
            15 * scale.least,
            lambda limit: s.bench(server, entry, plan, shape, limit, "9b"),
        )


def large(s: Session, scale: Scale) -> None:
    with s.server(scale.large) as server:
        shape = s.workload("231-shape").limited(scale.requests, None)
        entry = Entry("27b", "workload", "231-shape", label(scale.large))
        plan = closed(1, rounds=1)
        s.part(
            "27b", 60, 15 * scale.least, lambda limit: s.bench(server, entry, plan, shape, limit)
        )


def floors(s: Session, scale: Scale) -> None:
    """Products alone by token count, and the device's ceilings."""

    def run(limit_s: float) -> None:
        held = s.out / "gpu_floors.json"
        step = 2 if scale is FULL else 16
        asked = [f"{label(scale.nine)}:{step}", f"{label(scale.large)}:{4 * step}"]
        command = [sys.executable, "-m", "scripts.gpu_suite.floors", "--out", str(held), *asked]
        try:
            status = subprocess.run(command, timeout=limit_s, check=False).returncode
        finally:
            if held.is_file():  # the first model's, if the second has run out of time
                found = json.loads(held.read_bytes())
                s.set |= {"ceilings": found["ceilings"], "floors": found["floors"]}
                s.set["machine"] |= found["machine"]
        if status:
            raise ChildProcessError(f"status {status}")

    s.part("floors", 80, 15 * scale.least, run)


def peer(s: Session, scale: Scale) -> None:
    """transformers as it is installed, without kernels that were brought along."""
    with tempfile.TemporaryDirectory() as plain:
        run_peer(s, scale, "transformers as installed", 60, without_fla(Path(plain)))


def peer_fla(s: Session, scale: Scale) -> None:
    """The same with FLA's kernels, which compile first: as far as the time goes."""
    run_peer(s, scale, "transformers with fla-core 0.6.0", 180, os.environ.get("PYTHONPATH", ""))


def run_peer(s: Session, scale: Scale, name: str, limit_s: float, path: str) -> None:
    folder = "peer-fla" if "fla" in name else "peer"
    command = [
        sys.executable, "-m", "systone.cli", "bench", "peers", scale.nine, "--random-weights",
        "--no-plots", "--requests", str(scale.peer_requests), "--rounds", "1", "--commit", s.commit,
        "--out", str(s.folder / folder),
    ]  # fmt: skip

    def run(limit_s: float) -> None:
        environ = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(
            command, env=environ, timeout=limit_s, capture_output=True, text=True, check=False
        )
        say("\n".join(done.stdout.splitlines()[:20] + done.stderr.splitlines()[-5:]))
        if done.returncode:
            raise ChildProcessError(f"status {done.returncode}")
        s.add(Entry(folder, "peer", name, label(scale.nine)))

    s.part(folder, limit_s, 40 * scale.least, run)


def without_fla(plain: Path) -> str:
    """A search path where packages of FLA are hidden: links to all its neighbours in `plain`."""
    kept = []
    for place in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if not (Path(place) / "fla").is_dir():
            kept.append(place)
            continue
        for part in Path(place).iterdir():
            if not part.name.startswith(("fla", "flash_linear")):
                (plain / part.name).symlink_to(part.resolve())
        kept.append(str(plain))
    return os.pathsep.join(kept)


def label(source: str) -> str:
    """The package's name of a synthetic source."""
    return source.split(":")[1]


def mixed(shape: Workload, nouls: Workload, times: int) -> Workload:
    """Every request of the shape once a round and every Noul so many times, shuffled once."""
    held = (shape, nouls)
    order = [(0, i) for i in range(len(shape.items))]
    order += [(1, i) for i in range(len(nouls.items))] * times
    random.Random(times).shuffle(order)
    return Workload(
        "short",
        f"{shape.name} and, {times} times a round, {nouls.name}",
        True,
        tuple(held[which].items[i] for which, i in order),
        lambda index, variant: held[order[index][0]].make(order[index][1], variant),
    )


def closed(*amounts: int, **settings: Any) -> Callable[[int], Plan]:
    """A plan of these numbers in flight, for so many items."""
    levels = tuple(Level("closed", amount) for amount in amounts)
    return lambda items: Plan(items, levels, **settings)


PARTS: dict[str, Callable[[Session, Scale], None]] = {
    "nine": nine,
    "off": off,
    "large": large,
    "floors": floors,
    "peer": peer,
    "peer-fla": peer_fla,
}
