"""A batch of prepared requests run as passes: what one pass may hold, and what the policy allows.

Owns the cut of a batch into passes; knows no model semantics and no device. How a pass runs and
what becomes of its scores, `pass_flight` knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from systone.errors import ConfigError, EngineFaultError
from systone.execute.base import Launch, OverlappingRunner, PassRunner, Proofs, SelfChecked
from systone.execute.batch_tokens import batch_tokens
from systone.execute.pass_flight import Account, PassFlight, Run
from systone.models.base import Executor, Prepared, Readout
from systone.plan import PassBudget, PassTables, Reuse, Sharing, TablesMemo, Trie, cut_passes

__all__ = ["PassExecutor"]


class PassExecutor(Executor[Prepared]):
    """Runs the tries that adapters leave in `Prepared.work`.

    A `Readout.stats` has `prefix_cache` (the four fields of `plan.Reuse`), `inference_seconds`
    (what the request's passes took, shared with their other requests) and `passes`.
    """

    def __init__(
        self, runner: PassRunner, budget: PassBudget, sharing: Sharing | None = None
    ) -> None:
        self.runner = runner
        self.budget = budget
        self.sharing = sharing or Sharing()
        self._may_share = True
        self._memo = TablesMemo()
        # asked once: a look at every member of a protocol takes longer than cutting a batch
        self._overlapping = runner if isinstance(runner, OverlappingRunner) else None

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
        if self._overlapping is not None:
            self.whole_tokens = self._overlapping.whole_tokens
            self.pass_seconds = self._overlapping.pass_seconds
            most = min(self.budget.tokens, self.whole_tokens)
            self.max_batch_tokens = batch_tokens(self.pass_seconds, most)

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
            **({"batch_tokens": self.max_batch_tokens} if self.max_batch_tokens else {}),
            **self.runner.describe(),
        }

    def execute(self, batch: Sequence[Prepared]) -> Sequence[Readout | Exception]:
        flight = self.begin(batch)
        more = True
        while more:
            more = flight.enqueue()
            flight.wait()
        return flight.results()

    def begin(self, batch: Sequence[Prepared]) -> PassFlight:
        accounts = [self._account(prepared) for prepared in batch]
        budget = self._alone_budget if len(batch) == 1 else self.budget
        passes = cut_passes([account.trie for account in accounts], budget)
        return PassFlight(self._launch, self._memo.of, passes, accounts, waits=self._overlaps)

    @property
    def _overlaps(self) -> bool:
        """One row a pass is the serial mode."""
        return self._overlapping is not None and self.budget.rows > 1

    @cached_property
    def _alone_budget(self) -> PassBudget:
        """A request that comes alone may fill the largest pass: cut, it would compute what its rows
        share once for each pass."""
        if self._overlapping is None:
            return self.budget
        most = self._overlapping.pass_tokens
        return replace(self.budget, tokens=max(self.budget.tokens, most))

    def _launch(self, tables: PassTables) -> Launch:
        if self._overlapping is not None:
            return self._overlapping.begin(tables)
        return Run(self.runner, tables)

    def _account(self, prepared: Prepared) -> Account:
        trie = prepared.work
        if not isinstance(trie, Trie):
            raise TypeError("a pass executor needs a plan.Trie in Prepared.work")
        if not self._may_share:
            trie = trie.unshared()
        account = Account(trie, Reuse(self.sharing.policy))
        if trie.policy != self.sharing.policy:
            account.error = EngineFaultError(
                f"planned under policy {trie.policy}, executed under {self.sharing.policy}"
            )
        return account
