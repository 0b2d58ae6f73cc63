"""The device thread: loads models, starts executors, warms up, runs batches, closes what it opened.

Everything that gives a device work happens on this one thread; the wait for what it was given
happens on the loop's reader, but for small batches that come alone. Knows no HTTP and no futures
of callers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from systone.catalog import Catalog, Served
from systone.config import EngineConfig, ModelSettings
from systone.errors import ConfigError, SystoneError
from systone.models.base import Executor, Flight, Loaded, Readout
from systone.schedule.loop import Deliver, run_batches
from systone.schedule.scheduler import Scheduler

__all__ = ["DeviceThread", "Source"]

Source = str | ModelSettings | Loaded

WARMUP_ROUNDS = 2  # the first may compile and fill caches; the last teaches the time curve

log = logging.getLogger("systone.engine")


class DeviceThread:
    """Owns the executors of one engine."""

    def __init__(
        self,
        sources: Sequence[Source],
        config: EngineConfig,
        clock: Callable[[], float],
        deliver: Deliver,
    ) -> None:
        self._sources = tuple(sources)
        self._config = config
        self._clock = clock
        self._deliver = deliver
        self._opened: list[Executor[Any]] = []
        self._started: Future[tuple[Catalog, Scheduler]] = Future()
        self._thread = threading.Thread(target=self._run, name="systone-device", daemon=True)

    def start(self) -> tuple[Catalog, Scheduler]:
        """Load, start and warm up every model; returns when all can answer.

        Raises ConfigError, or what loading raised; everything opened is closed by then."""
        self._thread.start()
        return self._started.result()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the loop; False if the thread is stuck in a batch."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            catalog, scheduler = self._open()
        except BaseException as error:  # reported to the thread that waits in `start`
            self._close()
            self._started.set_exception(error)
            return
        self._started.set_result((catalog, scheduler))
        try:
            begin, awake_s = _begin_in(catalog), self._config.awake_s
            run_batches(scheduler, begin, self._deliver, self._clock, awake_s)
        except BaseException as error:
            log.critical("the device loop broke", exc_info=True)
            scheduler.fail(f"device loop broke: {type(error).__name__}")
        finally:
            self._close()

    def _open(self) -> tuple[Catalog, Scheduler]:
        models = [self._load(source) for source in self._sources]
        catalog = Catalog(models, jev_aliases=self._config.jev_aliases)
        for served in catalog.served:
            self._opened.append(served.loaded.executor)
            served.loaded.executor.start()
        scheduler = Scheduler(
            {served.name: served.budget for served in catalog.served},
            max_queue=self._config.max_queue,
            quantum_s=self._config.quantum_s,
            clock=self._clock,
        )
        for served in catalog.served:
            for tokens, seconds in served.loaded.executor.pass_seconds.items():
                scheduler.learn(served.name, tokens, seconds)
        if self._config.warmup:
            for served in catalog.served:
                self._warm_up(served, scheduler)
        return catalog, scheduler

    def _load(self, source: Source) -> tuple[Loaded, ModelSettings]:
        if isinstance(source, Loaded):
            return source, self._config.model
        settings = (
            source
            if isinstance(source, ModelSettings)
            else replace(self._config.model, source=source)
        )
        from systone.models import registry  # late: a family may import torch

        log.info("loading %s", settings.source)
        return registry.load(settings.source, settings), settings

    def _warm_up(self, served: Served, scheduler: Scheduler) -> None:
        """Real requests through prepare, execute and finish."""
        adapter, executor = served.loaded.adapter, served.loaded.executor
        try:
            for round_ in range(WARMUP_ROUNDS):
                for request in served.loaded.warmup:
                    prepared = adapter.prepare(request)
                    began = self._clock()
                    (result,) = executor.execute([prepared])
                    took_s = self._clock() - began
                    if not isinstance(result, Readout):
                        raise result
                    adapter.finish(prepared, result)
                    if round_ == WARMUP_ROUNDS - 1:
                        scheduler.learn(served.name, prepared.cost.tokens, took_s)
        except SystoneError as error:
            raise ConfigError(f"{served.name} failed its warm-up: {error}") from error

    def _close(self) -> None:
        for executor in self._opened:
            try:
                executor.close()
            except Exception:
                log.error("an executor failed to close", exc_info=True)


def _begin_in(catalog: Catalog) -> Callable[[str, Sequence[Any]], Flight]:
    executors = {served.name: served.loaded.executor for served in catalog.served}
    return lambda name, works: executors[name].begin(works)
