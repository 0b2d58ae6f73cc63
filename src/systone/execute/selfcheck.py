"""The gate before serving: what this device, with these weights, was seen to keep bit for bit.

Products by shape and row count; then whole passes: rows together, in another order, unshared and
alone; then captured graphs against eager launches. What fails is left out of serving and said.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from systone.execute.base import Proofs
from systone.execute.selfcheck_alone import alone
from systone.execute.selfcheck_products import Shape, Verdict
from systone.execute.selfcheck_rows import check_rows, pass_of
from systone.plan import PassTables, Row

__all__ = ["PassVerdict", "Report", "check_graphs", "check_passes"]

log = logging.getLogger(__name__)

# bits of every read-out: [R, any], one row of raw values each
Bits = NDArray[Any]
Run = Callable[[PassTables], Bits]


@dataclass(frozen=True, slots=True)
class PassVerdict:
    """`packing`: a row's bits don't depend on its neighbours or on order; `sharing`: nor on whether
    its leading segments are computed once for several rows."""

    packing: bool
    sharing: bool


@dataclass(frozen=True, slots=True)
class Report:
    """What a start found. `graphs`: replays gave the bits of eager launches; None: no graphs.
    `groups`: long passes in groups of layers, with others in between, gave the bits of whole ones;
    None: no pass is long enough. `heads`: projections of final hidden states; one that varies with
    the row count leaves no packing."""

    products: Mapping[Shape, Verdict]
    passes: PassVerdict
    graphs: bool | None
    seconds: Mapping[str, float]
    cached: bool
    groups: bool | None = None
    heads: Mapping[Shape, Verdict] = field(default_factory=dict)

    @property
    def proofs(self) -> Proofs:
        steady = all(v.canonical is None for v in self.products.values())
        whole = steady and self.passes.packing
        return Proofs(m_invariant=whole, sharing=whole and self.passes.sharing)

    def describe(self) -> Mapping[str, Any]:
        """Effective modes by operator."""
        return {
            "products": {f"{n}x{k}": v.mode for (n, k), v in self.products.items()},
            "heads": {f"{n}x{k}": v.mode for (n, k), v in self.heads.items()},
            "products_from_cache": self.cached,
            "packing": "proven" if self.passes.packing else "refused: one row a pass",
            "sharing": "proven" if self.passes.sharing else "refused: every row on its own",
            "graphs": {None: "none", True: "proven", False: "refused: eager"}[self.graphs],
            "groups": {None: "none", True: "proven", False: "refused: whole"}[self.groups],
            "refused": self.refused,
            "seconds": {name: round(value, 2) for name, value in self.seconds.items()},
        }

    @property
    def refused(self) -> int:
        """Operators and modes that run the conservative way."""
        modes = (
            self.passes.packing,
            self.passes.sharing,
            self.graphs is not False,
            self.groups is not False,
        )
        slow = sum(v.refused for found in (self.products, self.heads) for v in found.values())
        return slow + sum(not mode for mode in modes)


def check_passes(run: Run, vocabulary: int) -> PassVerdict:
    """Compare the check's rows together, backwards, unshared and alone. `run` gives the bits of a
    pass's read-outs, in their order."""
    requests = check_rows(vocabulary)
    together = run(pass_of(requests, shared=True))
    tables = pass_of(requests, shared=False)
    unshared = run(tables)
    backwards = _restored(run(pass_of(requests[::-1], shared=False)), requests)
    by_itself = np.concatenate([run(single) for single in alone(tables)])
    verdict = PassVerdict(
        packing=np.array_equal(unshared, by_itself) and np.array_equal(unshared, backwards),
        sharing=np.array_equal(together, unshared),
    )
    for name in ("packing", "sharing"):
        if not getattr(verdict, name):
            log.error("self-check: %s changes bits on this device; it is not used", name)
    return verdict


def check_graphs(eager: Run, replayed: Run, vocabulary: int) -> bool:
    """Replays with one pass, another, and the first again give the bits of eager launches."""
    requests = check_rows(vocabulary)
    passes = [
        pass_of(requests, shared=True),
        pass_of(requests[1:], shared=False),
        pass_of(requests[-1:], shared=True),
    ]
    wanted = [eager(tables) for tables in passes]
    order = (0, 1, 2, 0, 2, 1)
    same = all(np.array_equal(replayed(passes[at]), wanted[at]) for at in order)
    if not same:
        log.error("self-check: graphs change bits on this device; passes run eagerly")
    return same


def _restored(bits: Bits, requests: Sequence[Sequence[Row]]) -> Bits:
    """Read-outs of requests run last to first, in the requests' own order."""
    counts = [sum(len(row.readouts or (0,)) for row in rows) for rows in reversed(requests)]
    ends = np.cumsum(counts)[:-1]
    return np.concatenate(np.split(bits, ends)[::-1])


class Clock:
    """Seconds of the parts of a start."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = now - self._last
        self._last = now
