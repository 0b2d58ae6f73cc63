"""What a model family offers the engine: prepare and finish on the CPU, execute on a device.

    Request --prepare--> Prepared --execute (batched)--> Readout --finish--> Decision

`prepare` and `finish` run in any thread, are pure and thread-safe; `execute` is called by one
thread only. Knows no HTTP and no queue. N rows, W read-out width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from systone.protocol.types import Decision, Kind, Request


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model accepts; published in `/v1/models`. `None`: no limit of the model's own."""

    max_options: int = 255
    min_levels: int = 1
    max_levels: int = 10
    max_questions: int | None = None
    max_tokens: int | None = None  # of one scored row
    max_images: int = 0


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A served model as `/v1/models`, logs and documentation describe it.

    `calibrated`: whether probabilities may be read as frequencies; `confidence`, `usage_rule`:
    the definitions, in one sentence each. `name` is what replies carry in `model`.
    """

    name: str
    description: str
    release_date: str  # YYYY-MM-DD
    revision: str
    kinds: frozenset[Kind]
    calibrated: bool
    confidence: str
    usage_rule: str
    limits: Limits = field(default_factory=Limits)
    aliases: tuple[str, ...] = ()
    own: Mapping[str, Any] = field(default_factory=dict)  # what its own dialect lists beside this


@dataclass(frozen=True, slots=True)
class Cost:
    """What a request asks of a pass: unique tokens, read-outs (rows with one each count as rows),
    forked recurrent states."""

    tokens: int
    rows: int
    states: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A request ready for a device: every limit checked, every row tokenised.

    `work` is what the family's own executor reads (for trie models a `plan.Trie`);
    `context` is what its `finish` needs beside the read-outs. `input_tokens` is the usage.
    """

    request: Request
    cost: Cost
    input_tokens: int
    work: Any
    context: Any = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Readout:
    """One request's raw scores, float32 [N, W], rows in the order `prepare` made them; a row with
    several read-outs has one line for each, in order.

    `stats` carries what the pass did for this request (prefix reuse), for metadata only.
    """

    values: NDArray[np.float32]
    stats: Mapping[str, Any] = field(default_factory=dict)


class Adapter(ABC):
    """A model family's semantics: prompts, limits, usage, formulas. Pure CPU, no torch."""

    card: ModelCard

    @abstractmethod
    def prepare(self, request: Request) -> Prepared:
        """Check the request against the model's contract and tokenise it.

        Raises RequestError for the first fault in request order; never truncates silently."""

    @abstractmethod
    def finish(self, prepared: Prepared, readout: Readout) -> Decision:
        """Answers in float64 from raw scores.

        Raises EngineFaultError(code="non_finite_output") on NaN, or on an infinite score that
        leaves no finite one beside it."""


PreparedT = TypeVar("PreparedT", bound=Prepared)


class Flight(ABC):
    """A batch on its way through a device, part by part.

    The device thread enqueues; where `waits`, another thread waits for what was enqueued, part by
    part and in that order, and the device may be given more meanwhile. Else the device thread waits
    for each part itself, at once."""

    waits = False

    @abstractmethod
    def enqueue(self) -> bool:
        """Enqueue the next part; False if it was the last. Raises as `Executor.execute`."""

    def done(self) -> bool:
        """Whether `wait` would return at once; on the thread that would wait."""
        return True

    def wait(self) -> None:  # noqa: B027  (there is nothing to wait for where enqueueing runs it)
        """Until the next enqueued part is done; called once for each. Raises EngineDownError."""

    @abstractmethod
    def results(self) -> Sequence[Readout | Exception]:
        """Once every part is done: what `Executor.execute` returns."""


class Executed(Flight, Generic[PreparedT]):
    """A batch that is executed whole, on the device thread."""

    def __init__(
        self,
        execute: Callable[[Sequence[PreparedT]], Sequence[Readout | Exception]],
        batch: Sequence[PreparedT],
    ) -> None:
        self._execute = execute
        self._batch = batch
        self._results: Sequence[Readout | Exception] = ()

    def enqueue(self) -> bool:
        self._results = self._execute(self._batch)
        return False

    def results(self) -> Sequence[Readout | Exception]:
        return self._results


class Executor(ABC, Generic[PreparedT]):
    """Owns a device for one model. Every method but `describe` runs on one device thread.

    Known after `start`, None for no bound of its own: `max_batch_requests` and `max_batch_tokens`,
    more than which gain nothing in one batch, and would only wait for each other; `whole_tokens`, a
    batch of more is enqueued in several parts, between which others may run. `pass_seconds`:
    measured device time by tokens."""

    max_batch_requests: int | None = None
    max_batch_tokens: int | None = None
    whole_tokens: int | None = None
    pass_seconds: Mapping[int, float] = {}  # replaced, never written to

    @abstractmethod
    def start(self) -> None:
        """Load and check weights, allocate, warm up. Raises ConfigError."""

    @abstractmethod
    def execute(self, batch: Sequence[PreparedT]) -> Sequence[Readout | Exception]:
        """Scores for whole requests, in order: a Readout each, or the error that fails only that
        request. Raising fails the whole batch; raising EngineDownError means the device is lost."""

    def begin(self, batch: Sequence[PreparedT]) -> Flight:
        """The same batch, to be enqueued part by part."""
        return Executed(self.execute, batch)

    @abstractmethod
    def close(self) -> None:
        """Release the device. Called once, also after a failure."""

    def describe(self) -> Mapping[str, Any]:
        """Effective modes, device and memory for `/health`; cheap and safe from any thread."""
        return {}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A family's adapter and executor, as the registry returns them for one model source."""

    adapter: Adapter
    executor: Executor[Any]
    warmup: Sequence[Request] = ()  # real requests run before the server listens
