"""A server of one model in a process of its own, for the time of a run."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from systone.errors import ConfigError

__all__ = ["Served", "served"]

_LISTENING = re.compile(r"listening on (http://\S+)")
_POLL_S = 0.05
_STOP_S = 60.0


@dataclass(frozen=True, slots=True)
class Served:
    """`model` and `flags`: as it was started."""

    url: str
    pid: int
    model: str
    flags: tuple[str, ...]


@contextmanager
def served(
    model: str, flags: Sequence[str], log: Path, report: Callable[[str], None]
) -> Iterator[Served]:
    """Start `systone serve`, wait until it listens, stop it at the end.

    `report` gets the last line of its log while it loads. Raises ConfigError with that line if it
    ends before it listens."""
    command = [sys.executable, "-m", "systone.cli", "serve", "--model", model, "--port", "0"]
    with log.open("wb") as sink:
        process = subprocess.Popen([*command, *flags], stdout=sink, stderr=subprocess.STDOUT)
    try:
        yield Served(_url(process, model, log, report), process.pid, model, tuple(flags))
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _url(
    process: subprocess.Popen[bytes], model: str, log: Path, report: Callable[[str], None]
) -> str:
    while True:
        ended = process.poll() is not None  # before the log is read: nothing is added after it
        text = log.read_text(errors="replace")
        found = _LISTENING.search(text)
        if found:
            return found[1]
        last = text.splitlines()[-1] if text.strip() else "starting"
        if ended:
            raise ConfigError(f"the server of {model} ended: {last}")
        report(last)
        time.sleep(_POLL_S)
