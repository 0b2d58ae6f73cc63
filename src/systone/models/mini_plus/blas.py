"""Keeps NumPy's matrix products on the thread that asks for them.

OpenBLAS threads wait for each other by spinning: on a machine that is busy otherwise a product on
two threads took ten times as long as on one. Work is spread over whole statements instead.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["OneThreadBlas"]


class OneThreadBlas:
    """One thread per product between `limit` and `restore`, for the whole process's OpenBLAS."""

    def __init__(self) -> None:
        self._limiter: Any = None

    def limit(self) -> None:
        """Takes effect at once; a second call changes nothing."""
        if self._limiter is None:
            # imported late: the package comes with the extra only
            threadpoolctl: Any = import_module("threadpoolctl")
            openblas = threadpoolctl.ThreadpoolController().select(internal_api="openblas")
            self._limiter = openblas.limit(limits=1)

    def restore(self) -> None:
        """Back to the thread count before `limit`; harmless without it."""
        if self._limiter is not None:
            self._limiter.restore_original_limits()
            self._limiter = None
