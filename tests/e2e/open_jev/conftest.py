"""A synthetic Open-Jev package and its export on disk, and a server of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Server, launch

# One thread a process: these models are tiny, and two busy pools on two cores only wait.
ENV = {"OMP_NUM_THREADS": "1"}

VECTOR_A: dict[str, Any] = {
    "state": "A customer says: I was charged twice for one order. The service is working normally. "
    "There is no sign of unauthorized access.",
    "questions": {
        "route": {
            "type": "choice",
            "instructions": "Which team should handle this issue?",
            "criteria": {
                "billing": "Problems with charges, invoices, refunds or payments.",
                "security": "Unauthorized access or account compromise.",
                "technical": "Service unavailable or a software malfunction.",
            },
        },
        "refund_review": {
            "type": "noul",
            "instructions": "Does this message describe a duplicate charge?",
        },
        "urgency": {
            "type": "score",
            "instructions": "Assess the urgency using only the given evidence.",
            "criteria": [
                "Routine: no service disruption or active security compromise is reported.",
                "Urgent: an ongoing service disruption is reported.",
                "Critical: active unauthorized access is reported.",
            ],
        },
    },
}
VECTOR_A_USAGE = 539


def systone(*args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "systone.cli", *args], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def synthesize(out: Path, seed: int) -> Path:
    systone("synth", "open-jev-9b", "--size", "tiny", "--seed", str(seed), "--out", str(out))
    return out


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthesize(tmp_path_factory.mktemp("open-jev") / "D", seed=1)


@pytest.fixture(scope="session")
def export(package: Path) -> Path:
    out = package.with_name("E")
    systone("export", str(package), str(out))
    return out


@pytest.fixture(scope="session")
def jev_server(package: Path) -> Iterator[Server]:
    """The package, served in the default dialect."""
    log = package.with_name("package.log")
    running = launch(log, "--model", str(package), "--deadline-s", "none", env=ENV)
    running.client.timeout = 300
    yield running
    running.stop()
