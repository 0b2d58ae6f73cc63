"""A batch of prepared requests run as passes: cut, run, scatter by (request, row), account.

Owns the way from a request's rows to a pass and back; knows no model semantics and no device.
Axes: R read-outs of a pass, Q read-outs of a request, N its rows, W read-out width.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from systone.errors import ConfigError, EngineDownError, EngineFaultError
from systone.execute.base import PassRunner, Proofs, SelfChecked
from systone.models.base import Executor, Prepared, Readout
from systone.plan import (
    Part,
    PassBudget,
    PassTables,
    Reuse,
    Sharing,
    Trie,
    build_tables,
    cut_passes,
)
from systone.plan.layout import starts_of

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Account:
    """One request of the batch while its passes run."""

    trie: Trie
    reuse: Reuse
    seconds: float = 0.0  # wall time of the passes it took part in
    passes: int = 0
    values: NDArray[np.float32] | None = None  # [Q, W], row by row
    seen: NDArray[np.bool_] = field(init=False)  # [N]
    first: NDArray[np.int32] = field(init=False)  # [N] the row's first place in `values`
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.seen = np.zeros(self.trie.num_rows, bool)
        self.first = starts_of(self.trie.row_readouts)[:-1]

    def take(self, readout_row: NDArray[np.int32], scores: NDArray[np.float32]) -> None:
        """Keep the scores of read-outs whose rows these are: every read-out of a row at once, and
        each row once."""
        changed = np.flatnonzero(readout_row[1:] != readout_row[:-1]) + 1
        begin = np.concatenate([[0], changed])
        count = np.diff(np.append(begin, readout_row.shape[0]))
        rows = readout_row[begin]
        if self.seen[rows].any():
            raise EngineFaultError("a row was scored twice")
        if (count != self.trie.row_readouts[rows]).any():
            raise EngineFaultError("a row has not as many scores as read-outs")
        if self.values is None:
            self.values = np.empty((self.trie.num_readouts, scores.shape[1]), np.float32)
        inside = np.arange(readout_row.shape[0]) - begin.repeat(count)
        self.values[self.first[readout_row] + inside] = scores
        self.seen[rows] = True

    def outcome(self) -> Readout | Exception:
        if self.error is not None:
            return self.error
        if self.values is None or not self.seen.all():
            return EngineFaultError(f"{int((~self.seen).sum())} rows were never scored")
        return Readout(
            self.values,
            {
                "prefix_cache": self.reuse.report(),
                "inference_seconds": self.seconds,
                "passes": self.passes,
            },
        )


class PassExecutor(Executor[Prepared]):
    """Runs the tries that adapters leave in `Prepared.work`.

    A `Readout.stats` has `prefix_cache` (the four fields of `plan.Reuse`), `inference_seconds`
    (wall time of the request's passes, shared with their other requests) and `passes`.
    """

    def __init__(
        self, runner: PassRunner, budget: PassBudget, sharing: Sharing | None = None
    ) -> None:
        self.runner = runner
        self.budget = budget
        self.sharing = sharing or Sharing()
        self._may_share = True

    def start(self) -> None:
        """Raises ConfigError also when the self-check doesn't bear out the policy."""
        self.runner.start()
        proofs = self.runner.proofs() if isinstance(self.runner, SelfChecked) else Proofs()
        policy = self.sharing.policy
        if policy == "fixed" and not proofs.m_invariant:
            raise ConfigError(
                "policy fixed: this device's matrix products are not proven invariant"
            )
        if policy in ("shared", "auto") and proofs.sharing is False:
            raise ConfigError(f"policy {policy}: the self-check refused sharing on this device")
        self._may_share = proofs.sharing is not False

    def close(self) -> None:
        self.runner.close()

    def describe(self) -> Mapping[str, Any]:
        return {
            "policy": self.sharing.policy,
            "shares": self._may_share and self.sharing.policy not in ("off", "fixed"),
            "pass_budget": {
                "tokens": self.budget.tokens,
                "rows": self.budget.rows,
                "states": self.budget.states,
            },
            **self.runner.describe(),
        }

    def execute(self, batch: Sequence[Prepared]) -> Sequence[Readout | Exception]:
        accounts = [self._account(prepared) for prepared in batch]
        for parts in cut_passes([account.trie for account in accounts], self.budget):
            live = [part for part in parts if accounts[part.request].error is None]
            if live:
                self._run(live, accounts)
        return [account.outcome() for account in accounts]

    def _account(self, prepared: Prepared) -> _Account:
        trie = prepared.work
        if not isinstance(trie, Trie):
            raise TypeError("a pass executor needs a plan.Trie in Prepared.work")
        if not self._may_share:
            trie = trie.unshared()
        account = _Account(trie, Reuse(self.sharing.policy))
        if trie.policy != self.sharing.policy:
            account.error = EngineFaultError(
                f"planned under policy {trie.policy}, executed under {self.sharing.policy}"
            )
        return account

    def _run(self, parts: Sequence[Part], accounts: Sequence[_Account]) -> None:
        """One pass; its failure fails the requests in it and no other."""
        began = time.perf_counter()
        try:
            tables = build_tables(parts)
            scores = _checked(self.runner.run(tables), tables)
            _scatter(parts, tables, scores, accounts)
        except EngineDownError:
            raise
        except Exception as error:
            log.exception("a pass of %d requests failed", len(parts))
            for part in parts:
                accounts[part.request].error = _fault(error)
            return
        seconds = time.perf_counter() - began
        for part in parts:
            account = accounts[part.request]
            account.seconds += seconds
            account.passes += 1
            account.reuse = account.reuse.plus(
                part.trie.saved_tokens, crosses_questions=part.trie.crosses_questions
            )


def _checked(scores: NDArray[np.float32], tables: PassTables) -> NDArray[np.float32]:
    """The scores, if there is exactly one row of them per read-out."""
    wanted = tables.readout_row.shape[0]
    if scores.ndim != 2 or scores.shape[0] != wanted:
        raise EngineFaultError(f"{wanted} read-outs gave scores of shape {scores.shape}")
    return scores


def _scatter(
    parts: Sequence[Part],
    tables: PassTables,
    scores: NDArray[np.float32],
    accounts: Sequence[_Account],
) -> None:
    """Each score to the (request, row) its read-out names."""
    for index, part in enumerate(parts):
        mine = tables.readout_request == index
        accounts[part.request].take(tables.readout_row[mine], scores[mine])


def _fault(error: Exception) -> EngineFaultError:
    """The error one request of a failed pass gets: an object of its own."""
    if isinstance(error, EngineFaultError):
        return EngineFaultError(str(error), code=error.code)
    fault = EngineFaultError(f"inference failed: {type(error).__name__}")
    fault.__cause__ = error
    return fault
