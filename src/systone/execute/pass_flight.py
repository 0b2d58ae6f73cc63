"""A batch's passes on their way through a runner: enqueue, wait, scatter, account.

Scores go back by (request, row). A pass's failure fails the requests in it and no other. One
thread enqueues, another may wait.
Axes: R read-outs of a pass, Q read-outs of a request, N its rows, W read-out width.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from systone.errors import EngineDownError, EngineFaultError
from systone.execute.base import Launch, PassRunner
from systone.models.base import Flight, Readout
from systone.plan import Part, PassTables, Reuse, Trie
from systone.plan.layout import starts_of

__all__ = ["Account", "PassFlight", "Run"]

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Account:
    """One request of the batch while its passes run."""

    trie: Trie
    reuse: Reuse
    seconds: float = 0.0  # of the passes it took part in, shared with their other requests
    passes: int = 0
    values: NDArray[np.float32] | None = None  # [Q, W], row by row
    unseen: NDArray[np.bool_] | None = None  # [N] while rows are scored in several passes
    error: Exception | None = None

    def take_all(self, scores: NDArray[np.float32]) -> None:
        """Keep the scores of all read-outs, in order."""
        if self.values is not None:
            raise EngineFaultError("a row was scored twice")
        self.values = scores

    def take(self, readout_row: NDArray[np.int32], scores: NDArray[np.float32]) -> None:
        """Keep the scores of read-outs whose rows these are: every read-out of a row at once, and
        each row once."""
        changed = np.flatnonzero(readout_row[1:] != readout_row[:-1]) + 1
        begin = np.concatenate([[0], changed])
        count = np.diff(np.append(begin, readout_row.shape[0]))
        rows = readout_row[begin]
        if self.values is None:
            self.values = np.empty((self.trie.num_readouts, scores.shape[1]), np.float32)
            self.unseen = np.ones(self.trie.num_rows, bool)
        if self.unseen is None or not self.unseen[rows].all():
            raise EngineFaultError("a row was scored twice")
        if (count != self.trie.row_readouts[rows]).any():
            raise EngineFaultError("a row has not as many scores as read-outs")
        inside = np.arange(readout_row.shape[0]) - begin.repeat(count)
        first = starts_of(self.trie.row_readouts)
        self.values[first[readout_row] + inside] = scores
        self.unseen[rows] = False

    def outcome(self) -> Readout | Exception:
        if self.error is not None:
            return self.error
        missing = self.unseen.sum() if self.unseen is not None else 0
        if self.values is None or missing:
            return EngineFaultError(f"{missing or self.trie.num_rows} rows were never scored")
        return Readout(
            self.values,
            {
                "prefix_cache": self.reuse.report(),
                "inference_seconds": self.seconds,
                "passes": self.passes,
            },
        )


class Run:
    """A pass that runs at once, on a runner that can do no more than one thing at a time."""

    def __init__(self, runner: PassRunner, tables: PassTables) -> None:
        self._runner = runner
        self._tables = tables
        self._scores: NDArray[np.float32] | None = None
        self.seconds = 0.0

    def enqueue(self) -> bool:
        began = time.perf_counter()
        self._scores = self._runner.run(self._tables)
        self.seconds = time.perf_counter() - began
        return False

    def done(self) -> bool:
        return True

    def wait(self) -> None:
        """It has run already."""

    def take(self) -> NDArray[np.float32]:
        if self._scores is None:
            raise EngineFaultError("scores of a pass that has not run")
        return self._scores


@dataclass(frozen=True, slots=True, eq=False)
class _Share:
    """What one request has of a pass: read-outs `first` to `end` - 1, of these rows; None: all of
    the request's, in order."""

    account: Account
    first: int
    end: int
    rows: NDArray[np.int32] | None


@dataclass(slots=True, eq=False)
class _Launched:
    """A pass that has begun. `shares`: known once its first part is enqueued, as they are made
    while the device works."""

    parts: Sequence[Part]
    tables: PassTables
    launch: Launch
    shares: Sequence[_Share] = ()


class PassFlight(Flight):
    """`passes`: the parts of each; `tables_of` makes their tables, `launch` begins one. `waits`:
    see `Flight`."""

    def __init__(
        self,
        launch: Callable[[PassTables], Launch],
        tables_of: Callable[[Sequence[Part]], PassTables],
        passes: Sequence[Sequence[Part]],
        accounts: Sequence[Account],
        *,
        waits: bool,
    ) -> None:
        self.waits = waits
        self._launch = launch
        self._tables_of = tables_of
        self._ahead = deque(passes)
        self._accounts = accounts
        self._begun: _Launched | None = None  # has parts left to enqueue
        # what `wait` waits for next, and whether it is the end of its pass; None: nothing
        self._enqueued: SimpleQueue[tuple[_Launched, bool] | None] = SimpleQueue()
        self._oldest: tuple[_Launched, bool] | None = None  # taken from there to look at it

    def enqueue(self) -> bool:
        while (current := self._begun or self._next()) is not None:
            self._begun = None
            try:
                more = current.launch.enqueue()
                current.shares = current.shares or self._shares(current)
            except EngineDownError:
                raise
            except Exception as error:
                self._fail(current.parts, error)
                continue
            self._begun = current if more else None
            self._enqueued.put((current, not more))
            return more or self._has_next()
        self._enqueued.put(None)
        return False

    def done(self) -> bool:
        if self._oldest is None:
            self._oldest = self._enqueued.get_nowait()
        return self._oldest is None or self._oldest[0].launch.done()

    def wait(self) -> None:
        found, self._oldest = self._oldest or self._enqueued.get_nowait(), None
        if found is None:
            return
        launched, last = found
        try:
            launched.launch.wait()
            if last:
                self._account(launched)
        except EngineDownError:
            raise
        except Exception as error:
            self._fail(launched.parts, error)

    def results(self) -> Sequence[Readout | Exception]:
        return [account.outcome() for account in self._accounts]

    def _has_next(self) -> bool:
        """Whether a pass is left that somebody still waits for; drops those before it."""
        while self._ahead and not self._live(self._ahead[0]):
            self._ahead.popleft()
        return bool(self._ahead)

    def _next(self) -> _Launched | None:
        """Begin the next pass, without the requests that failed in an earlier one."""
        while self._has_next():
            parts = self._live(self._ahead.popleft())
            try:
                tables = self._tables_of(parts)
                return _Launched(parts, tables, self._launch(tables))
            except EngineDownError:
                raise
            except Exception as error:
                self._fail(parts, error)
        return None

    def _live(self, parts: Sequence[Part]) -> list[Part]:
        return [part for part in parts if self._accounts[part.request].error is None]

    def _shares(self, launched: _Launched) -> list[_Share]:
        """Who gets which of a pass's scores; notes what its requests share in it."""
        tables, shares, first = launched.tables, [], 0
        _check_order(launched.parts, tables)
        for part in launched.parts:
            trie, account = part.trie, self._accounts[part.request]
            end = first + trie.num_readouts
            # a request that was not cut has all of its rows here, once and in order
            rows = None if trie is account.trie else tables.readout_row[first:end]
            shares.append(_Share(account, first, end, rows))
            account.passes += 1
            saved = trie.saved_tokens
            if saved:
                across = trie.crosses_questions
                account.reuse = account.reuse.plus(saved, crosses_questions=across)
            first = end
        return shares

    def _account(self, done: _Launched) -> None:
        """Scatter a pass's scores and note what it took."""
        scores = _checked(done.launch.take(), done.tables)
        for share in done.shares:
            mine = scores[share.first : share.end]
            if share.rows is None:
                share.account.take_all(mine)
            else:
                share.account.take(share.rows, mine)
            share.account.seconds += done.launch.seconds

    def _fail(self, parts: Sequence[Part], error: Exception) -> None:
        log.error("a pass of %d requests failed", len(parts), exc_info=error)
        for part in parts:
            self._accounts[part.request].error = _fault(error)


def _check_order(parts: Sequence[Part], tables: PassTables) -> None:
    """Whether the read-outs are the parts' in order, and within each its rows'."""
    requests = np.arange(len(parts), dtype=np.int32).repeat([p.trie.num_readouts for p in parts])
    every = parts[0].rows if len(parts) == 1 else np.concatenate([part.rows for part in parts])
    counts = [part.trie.row_readouts for part in parts]
    rows = every.repeat(counts[0] if len(parts) == 1 else np.concatenate(counts))
    if not (
        np.array_equal(tables.readout_request, requests)
        and np.array_equal(tables.readout_row, rows)
    ):
        raise EngineFaultError("a pass mixes up the read-outs of its requests")


def _checked(scores: NDArray[np.float32], tables: PassTables) -> NDArray[np.float32]:
    """The scores, if there is exactly one row of them per read-out."""
    wanted = tables.readout_row.shape[0]
    if scores.ndim != 2 or scores.shape[0] != wanted:
        raise EngineFaultError(f"{wanted} read-outs gave scores of shape {scores.shape}")
    return scores


def _fault(error: Exception) -> EngineFaultError:
    """The error one request of a failed pass gets: an object of its own."""
    if isinstance(error, EngineFaultError):
        return EngineFaultError(str(error), code=error.code)
    fault = EngineFaultError(f"inference failed: {type(error).__name__}")
    fault.__cause__ = error
    return fault
