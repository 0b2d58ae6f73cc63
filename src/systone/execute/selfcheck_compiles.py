"""Counts kernel compilations of this process after a moment: none may happen while serving.

Listens where Triton reports a variant it hadn't loaded, also one its disk cache holds.
"""

from __future__ import annotations

import logging
from typing import Any

import triton

__all__ = ["CompileCount"]

log = logging.getLogger(__name__)


class CompileCount:
    """Counts from `begin` until `end`. Another listener at the same place is still called."""

    def __init__(self) -> None:
        self.count = 0
        self.names: list[str] = []
        self._before: Any = None
        self._listening = False

    def begin(self) -> None:
        self.count = 0
        self.names.clear()
        if not self._listening:
            self._before = triton.knobs.runtime.jit_post_compile_hook
            triton.knobs.runtime.jit_post_compile_hook = self._seen
            self._listening = True

    def end(self) -> None:
        """Listeners leave in any order: one that was covered by another stays, and stays silent."""
        if self._listening and triton.knobs.runtime.jit_post_compile_hook == self._seen:
            triton.knobs.runtime.jit_post_compile_hook = self._before
        self._listening = False

    def _seen(self, *args: Any, **report: Any) -> Any:
        if self._listening:
            self.count += 1
            self.names.append(str(report.get("repr", "")).split("[")[0])
            log.warning("%s had to be loaded or compiled while serving", self.names[-1])
        return self._before(*args, **report) if self._before else None
