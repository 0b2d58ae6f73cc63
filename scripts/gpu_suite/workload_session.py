"""What the parts of a workload session share: runs' folder, client, texts, the time left."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from systone.bench import evidence
from systone.bench.client_process import ClientProcess
from systone.bench.environment import environment
from systone.bench.folder import dump
from systone.bench.items import Workload
from systone.bench.plan import Plan
from systone.bench.run import RunStoppedError
from systone.bench.server_process import Served, served
from systone.bench.session import Options, run_http
from systone.bench.workloads import load_workload
from systone.models.synthetic import PREFIX

BEGAN = time.monotonic()
START_S = 150.0  # of a server; the first one compiles
SHOWN = (
    "level", "requests", "failures", "mean_ms", "p50_ms", "p95_ms", "requests_per_s",
    "overhead_p50_ms", "steps_p50_ms", "device_idle_share", "peak_device_mib",
    "device_growth_mib",
)  # fmt: skip


def say(text: str) -> None:
    print(f"[{time.monotonic() - BEGAN:6.1f}] {text}", flush=True)


@dataclass(frozen=True, slots=True)
class Entry:
    """A run as set.json names it."""

    folder: str
    role: str
    name: str
    model: str
    workload: str = "231-shape"
    sharing: str = "default"


class Session:
    """Everything that the parts share: where runs go, the client, texts, the time that is left."""

    def __init__(
        self, commit: str, seconds: float, device: str, without: Collection[str] = ()
    ) -> None:
        self.commit, self.device, self.without = commit, device, without
        self.out = Path(os.environ.get("OUT", "."))
        self.folder = Path(tempfile.mkdtemp(prefix="systone-workload-")) / "gpu_workload"
        self.folder.mkdir()
        self.ends = BEGAN + seconds
        self.client = ClientProcess().__enter__()
        self.uneven: set[str] = set()
        self.texts: dict[str, Workload] = {}
        facts = environment(commit)
        self.set: dict[str, Any] = {
            "format": evidence.FORMAT,
            "commit": commit,
            "machine": {"device": (facts["gpu"] or "none").partition(",")[0], **facts},
            "ceilings": None,
            "floors": {},
            "runs": [],
            "not_run": [],
        }

    def left(self) -> float:
        return self.ends - time.monotonic()

    def workload(self, name: str) -> Workload:
        """In tokens of the one tokenizer that all synthetic models have."""
        if name not in self.texts:
            self.texts[name] = load_workload(name, tokenizer=None, target=PREFIX, seed=0)
        return self.texts[name]

    def part(self, name: str, limit_s: float, least_s: float, run: Callable[[float], None]) -> None:
        """Run a part that may take `limit_s`; not at all with less than `least_s` left, or when it
        isn't wanted."""
        if name in self.without:
            return
        limit_s = min(limit_s, self.left())
        if limit_s < least_s:
            self.not_run(name, f"{self.left():.0f} s were left of {least_s:.0f} s it needs")
            return
        began = time.monotonic()
        try:
            run(limit_s)
        except subprocess.TimeoutExpired:
            self._lost(name, f"over {limit_s:.0f} s")
        except Exception as error:
            traceback.print_exc(limit=-4)
            self._lost(name, f"{type(error).__name__}: {str(error)[:200]}")
        say(f"{name}: {time.monotonic() - began:.1f} s")
        self.keep()

    def _lost(self, name: str, reason: str) -> None:
        self.not_run(name, reason)
        shutil.rmtree(self.folder / name, ignore_errors=True)
        self._new_client()

    def bench(
        self,
        server: Served,
        entry: Entry,
        plan: Callable[[int], Plan],
        texts: Workload,
        limit_s: float,
        equal_to: str | None = None,
    ) -> None:
        """One run of `systone bench` against a server that is up."""
        ends = time.monotonic() + limit_s

        def show(step: str, done: int) -> None:
            if time.monotonic() > ends:
                raise RunStoppedError(f"over {limit_s:.0f} s at {step}, {done} requests")

        held = None if equal_to is None else self.folder / equal_to
        if held is not None and (equal_to in self.uneven or not held.is_dir()):
            say(f"{entry.folder}: {equal_to} has no answers to hold these to")
            held = None
        options = Options(self.folder / entry.folder, commit=self.commit, equal_to=held, draw=False)
        report = run_http(
            {"a": server}, plan(len(texts.items)), texts, options, show, client=self.client
        )
        self.add(entry)
        if time.monotonic() > ends:
            self.not_run(
                entry.folder, f"stopped after {limit_s:.0f} s: the last levels are missing"
            )
            self._new_client()
        if report.figures["answers"]["texts_with_differing_answers"]:
            self.uneven.add(entry.folder)  # nothing can be held to its answers
        for level in report.figures["levels"]:
            if level["target"] == "a":
                say("  ".join(f"{name} {level[name]}" for name in SHOWN))
        say(f"{report.figures['answers']} failures {len(report.figures['failures'])}")

    def _new_client(self) -> None:
        """The old one may be inside a block still."""
        stopped = RunStoppedError()
        self.client.__exit__(RunStoppedError, stopped, None)
        self.client = ClientProcess().__enter__()

    def add(self, entry: Entry) -> None:
        self.set["runs"].append(asdict(entry))

    def keep(self) -> None:
        """What is done so far, under $OUT; `systone bench evidence` can summarise it."""
        (self.folder / evidence.SET).write_bytes(dump(self.set))
        draft = self.folder.parent.with_suffix(".tar")
        with tarfile.open(draft, "w") as tar:
            for path in sorted(self.folder.parent.iterdir()):
                tar.add(path, path.name)
        part = self.out / ".gpu_workload.tar"  # whoever ends us finds the last whole one
        shutil.move(draft, part)
        part.replace(self.out / "gpu_workload.tar")

    def close(self) -> None:
        """Write the summary too, and end the client."""
        self.keep()
        summary = evidence.write(self.folder)
        shutil.copy(summary, self.out / summary.name)
        self.keep()
        self.client.__exit__(None, None, None)

    @contextmanager
    def server(self, model: str, *flags: str) -> Iterator[Served]:
        """A server of the model; its log lies under $OUT."""
        label = "-".join(
            [model.replace(":", "-"), *(f.strip("-").replace("=", "-") for f in flags)]
        )
        began = time.monotonic()
        log = self.out / f"{label}.server.log"

        def waiting(line: str) -> None:
            if time.monotonic() - began > START_S or self.left() < 0:
                raise TimeoutError(f"{label} has not started: {line}")

        with served(model, [*flags, f"--device={self.device}"], log, waiting) as up:
            say(f"{label}: listens after {time.monotonic() - began:.1f} s")
            yield up

    def not_run(self, name: str, reason: str) -> None:
        say(f"{name}: not run: {reason}")
        self.set["not_run"].append({"part": name, "reason": reason})
