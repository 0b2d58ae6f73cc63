"""The engine: models, scheduler, workers and the device thread, wired; sync and async calls.

One thread owns every device: it loads models, warms them up, enqueues batches and closes them. A
small pool prepares requests; one thread waits for the device and finishes small batches, another
the large ones. A small request alone is prepared by its caller and makes three thread hops: caller,
device, reader, caller. Knows no HTTP and no torch.

`start` sets the interpreter's switch interval for the whole process (`switch_interval_s`): at
Python's default of 5 ms a busy thread delays the hand-over to another by that much and more.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from systone import pipeline
from systone.asking import request_of
from systone.catalog import Catalog, brief
from systone.config import EngineConfig
from systone.device import DeviceThread, Source
from systone.errors import EngineDownError
from systone.models.base import ModelCard
from systone.protocol.rules import WireLimits
from systone.protocol.size import text_size
from systone.protocol.types import Decision, Question, Request, Text
from systone.schedule.budget import Batch
from systone.schedule.lane import AT_ONCE_SIZE
from systone.schedule.loop import FEW
from systone.schedule.pool import WorkerPool
from systone.schedule.scheduler import Scheduler
from systone.schedule.tally import Tally
from systone.schedule.ticket import Stamps
from systone.schedule.watchdog import Watchdog

__all__ = ["Engine", "Health", "ModelHealth", "Pending", "Source"]

log = logging.getLogger("systone.engine")


class Pending(Future[Decision]):
    """A decision to come. `cancel()` before dispatch costs no device work; `stamps` says where
    the time went."""

    def __init__(self) -> None:
        super().__init__()
        self.stamps = Stamps()


@dataclass(frozen=True, slots=True)
class ModelHealth:
    """`undispatched`, `running`: requests. `modes`: what the executor says of itself."""

    name: str
    calibrated: bool
    undispatched: int
    running: int
    modes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Health:
    """The engine's truth. `status`: starting, ready, draining or failed; `reason` says why."""

    status: str
    reason: str
    max_queue: int
    models: tuple[ModelHealth, ...] = ()

    @property
    def ready(self) -> bool:
        return self.status == "ready"


class Engine:
    """Serves the models named (built-in names, directories, settings, or loaded ones).

    Start it with `start()` or `with`; it accepts calls from any thread and any event loop. Models
    given as text are loaded with `config.model`'s settings; the first is the default."""

    def __init__(
        self, models: Sequence[Source] = ("systone-mini",), config: EngineConfig | None = None
    ) -> None:
        self.config = config or EngineConfig()
        self._clock = time.monotonic
        self._device = DeviceThread(models, self.config, self._clock, self._deliver)
        self._live: tuple[Catalog, Scheduler] | None = None
        self._closing = threading.Lock()
        self._closed = False

    def start(self) -> Self:
        """Load, verify and warm up every model. Raises ConfigError."""
        sys.setswitchinterval(self.config.switch_interval_s)
        catalog, scheduler = self._device.start()
        self._preparers = WorkerPool("systone-prepare", self.config.workers, self._crashed)
        self._finisher = WorkerPool("systone-finish", 1, self._crashed)
        self._watchdog = Watchdog(scheduler, self._clock, max_batch_s=self.config.max_batch_s)
        self._watchdog.start()
        self._live = (catalog, scheduler)
        scheduler.set_ready()
        for card in self.cards:
            log.info("serving %s", brief(card))
        return self

    def drain(self, timeout_s: float) -> bool:
        """Refuse new requests and wait for the accepted ones; True if all had their outcome."""
        return self._running()[1].drain(timeout_s)

    def close(self) -> None:
        """Finish what was accepted, up to `drain_s`, then release the devices."""
        with self._closing:
            if self._closed or self._live is None:
                return
            self._closed = True
            scheduler = self._live[1]
            scheduler.drain(self.config.drain_s)
            scheduler.stop()
            if not self._device.join(timeout_s=5.0):
                log.error("the device thread is stuck; it ends with the process")
            self._watchdog.stop()
            self._preparers.close()
            self._finisher.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def cards(self) -> tuple[ModelCard, ...]:
        """The served models with every name they answer to, the default first."""
        return tuple(served.card for served in self._live[0].served) if self._live else ()

    @property
    def limits(self) -> WireLimits:
        """The wire's limits, wide enough for every model served."""
        return WireLimits.covering(card.limits for card in self.cards)

    def exact_name(self, name: str) -> str:
        """`name@revision` of a served model: the very checkpoint that answers."""
        card = self._running()[0].resolve(name).card
        return f"{card.name}@{card.revision}"

    def require_room(self) -> None:
        """Raises what `submit` would raise for any request now: a look before parsing one."""
        self._running()[1].require_room()

    def submit(
        self,
        request: Request,
        *,
        deadline_s: float | None = None,
        settled: Callable[[Any], None] | None = None,
    ) -> Pending:
        """Accept one request, to be dispatched within `deadline_s` from now.

        Raises RequestError for an unknown model, CapacityError or DeadlineError if it can't be
        answered in time, EngineDownError if the engine isn't ready. Later errors come through the
        future: RequestError, DeadlineError, CapacityError, EngineFaultError, EngineDownError.

        A request of little text that finds the engine idle is prepared by the device thread if that
        is awake, else here, on the caller's thread, for about a millisecond at most. `settled` is
        called once with the future, on the thread that gives it its outcome (this one, if preparing
        does): it must be quick."""
        catalog, scheduler = self._running()
        served = catalog.resolve(request.model)
        pending = Pending()
        deadline = None if deadline_s is None else self._clock() + deadline_s
        ticket = scheduler.admit(
            served.name,
            deadline=deadline,
            future=pending,
            stamps=pending.stamps,
            size=text_size(request, AT_ONCE_SIZE),
        )
        if settled is not None:
            pending.add_done_callback(settled)
        adapter = served.loaded.adapter

        def prepare() -> None:
            pipeline.prepare(scheduler, adapter, request, ticket, self._clock)

        if ticket.at_once:
            ticket.rehearse = partial(adapter.prepare, request)
            prepare_here = partial(self._prepare_here, prepare, pending)
            if not scheduler.errand(prepare_here):
                prepare_here()
        else:
            self._preparers.run(prepare)
        return pending

    def _prepare_here(self, prepare: Callable[[], None], pending: Pending) -> None:
        try:
            prepare()
        except Exception as error:  # as a worker's would be: see WorkerPool
            self._crashed(error)
        except BaseException:  # the caller's thread is being interrupted, by Ctrl-C for one
            pending.cancel()
            raise

    def decide(
        self,
        state: Text,
        questions: Mapping[str, Question],
        model: str | None = None,
        *,
        deadline_s: float | None = None,
    ) -> Decision:
        """Answer and wait. Raises what `submit` and its future raise, and RequestError for what
        the wire wouldn't take."""
        request = request_of(state, questions, model, self.limits)
        return self.submit(request, deadline_s=deadline_s).result()

    async def adecide(
        self,
        state: Text,
        questions: Mapping[str, Question],
        model: str | None = None,
        *,
        deadline_s: float | None = None,
    ) -> Decision:
        """`decide` for an event loop; cancelling the task takes the request out of the queue."""
        request = request_of(state, questions, model, self.limits)
        return await asyncio.wrap_future(self.submit(request, deadline_s=deadline_s))

    def health(self) -> Health:
        """Cheap; from any thread, in any state."""
        if self._live is None:
            return Health("starting", "loading models", self.config.max_queue)
        catalog, scheduler = self._live
        status, reason = scheduler.status()
        depth = scheduler.depth()
        models = tuple(
            ModelHealth(
                served.name,
                served.card.calibrated,
                *depth[served.name],
                served.loaded.executor.describe(),
            )
            for served in catalog.served
        )
        return Health(status.value, reason, self.config.max_queue, models)

    def tally(self) -> Tally:
        """Counts of outcomes, refusals and device work since start."""
        return self._running()[1].tally()

    def _running(self) -> tuple[Catalog, Scheduler]:
        if self._live is None:
            raise EngineDownError("the engine is starting: loading models")
        return self._live

    def _deliver(
        self, batch: Batch, works: Sequence[Any], results: Sequence[Any], alone: bool
    ) -> None:
        catalog, scheduler = self._running()
        adapter = catalog.by_name[batch.lane].loaded.adapter

        def finish() -> None:
            pipeline.finish(scheduler, adapter, batch.tickets, works, results, self._clock)

        if alone and len(batch.tickets) <= FEW:
            for ticket in batch.tickets:
                ticket.stamps.alone = True
            try:
                finish()  # saves a hand-over when nothing else waits for this thread
            except BaseException as error:
                self._crashed(error)
        else:
            self._finisher.run(finish)

    def _crashed(self, error: BaseException) -> None:
        log.critical("a worker broke", exc_info=error)
        self._running()[1].fail(f"a worker broke: {type(error).__name__}")
