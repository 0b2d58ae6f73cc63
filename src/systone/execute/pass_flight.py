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
from dataclasses import dataclass, field
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
    seen: NDArray[np.bool_] = field(init=False)  # [N]
    first: NDArray[np.int32] = field(init=False)  # [N] the row's first place in `values`
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.seen = np.zeros(self.trie.num_rows, bool)
        self.first = starts_of(self.trie.row_readouts)[:-1]

    def take(self, readout_row: NDArray[np.int32], scores: NDArray[np.float32]) -> None:
        """Keep the scores of read-outs whose rows these are: every read-out of a row at once, and
        each row once."""
        whole = np.arange(self.trie.num_rows, dtype=np.int32).repeat(self.trie.row_readouts)
        if self.values is None and np.array_equal(readout_row, whole):
            self.values = scores.astype(np.float32)  # most requests: every row in one pass
            self.seen[:] = True
            return
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

    def wait(self) -> None:
        """It has run already."""

    def take(self) -> NDArray[np.float32]:
        if self._scores is None:
            raise EngineFaultError("scores of a pass that has not run")
        return self._scores


@dataclass(frozen=True, slots=True, eq=False)
class _Launched:
    """A pass that has begun."""

    parts: Sequence[Part]
    tables: PassTables
    launch: Launch


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

    def enqueue(self) -> bool:
        while (current := self._begun or self._next()) is not None:
            self._begun = None
            try:
                more = current.launch.enqueue()
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

    def wait(self) -> None:
        found = self._enqueued.get_nowait()
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

    def _account(self, done: _Launched) -> None:
        """Scatter a pass's scores and note what it took."""
        scores = _checked(done.launch.take(), done.tables)
        _scatter(done.parts, done.tables, scores, self._accounts)
        for part in done.parts:
            account = self._accounts[part.request]
            account.seconds += done.launch.seconds
            account.passes += 1
            account.reuse = account.reuse.plus(
                part.trie.saved_tokens, crosses_questions=part.trie.crosses_questions
            )

    def _fail(self, parts: Sequence[Part], error: Exception) -> None:
        log.error("a pass of %d requests failed", len(parts), exc_info=error)
        for part in parts:
            self._accounts[part.request].error = _fault(error)


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
    accounts: Sequence[Account],
) -> None:
    """Each score to the (request, row) its read-out names."""
    if len(parts) == 1:
        accounts[parts[0].request].take(tables.readout_row, scores)
        return
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
