"""How long steps tell how far they are: a callback, and a terminal bar for the commands.

Knows no weights. Amounts are bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

__all__ = ["Report", "progress_bar", "silent"]

_APPEARS_AFTER_S = 2.0


class Report(Protocol):
    """Called as a step advances: its name, bytes done so far, bytes in all."""

    def __call__(self, step: str, done: int, total: int) -> None: ...


def silent(step: str, done: int, total: int) -> None:
    """The report nobody reads."""


class _Bar:
    """Turns reports into one bar per step, once the work has lasted long enough to be noticed."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.tasks: dict[str, TaskID] = {}
        self.began = time.monotonic()
        self.shown = False

    def __call__(self, step: str, done: int, total: int) -> None:
        if not self.shown and time.monotonic() - self.began >= _APPEARS_AFTER_S:
            self.progress.start()
            self.shown = True
        if step not in self.tasks:
            self.tasks[step] = self.progress.add_task(step, total=total)
        self.progress.update(self.tasks[step], completed=done, total=total)


@contextmanager
def progress_bar(console: Console | None = None) -> Iterator[Report]:
    """A report that draws on stderr when the work takes longer than two seconds."""
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TimeElapsedColumn(),
        console=console or Console(stderr=True),
    )
    try:
        yield _Bar(progress)
    finally:
        progress.stop()
