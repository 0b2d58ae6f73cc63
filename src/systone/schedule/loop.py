"""The device thread's loop: take a batch, enqueue it, and the next before the device is done.

Owns the border between executors and callers: an exception fails its batch only, an error entry
its request only, a lost device everyone (health first). What was enqueued, the reader waits for on
a thread of its own. Knows no model: `begin` puts a lane's works on a device, `deliver` takes what
came out to the workers that finish answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from systone.errors import CapacityError, EngineDownError, EngineFaultError, SystoneError
from systone.schedule.awake import Rehearsal, breathe
from systone.schedule.bell import Errand
from systone.schedule.budget import Batch
from systone.schedule.occupancy import Resume
from systone.schedule.reader import Flying, Reader
from systone.schedule.scheduler import Scheduler

if TYPE_CHECKING:
    from systone.models.base import Flight

__all__ = ["FEW", "Begin", "Deliver", "run_batches"]

log = logging.getLogger("systone.schedule")

Begin = Callable[[str, Sequence[Any]], "Flight"]
# A batch, its works, one result or exception each, and whether nothing else waits for the thread.
Deliver = Callable[[Batch, Sequence[Any], Sequence[Any], bool], None]

FEW = 4  # requests of a batch that whoever waits for the device answers itself
PART_S = 0.015  # what a part of a long batch is expected to take


def run_batches(
    scheduler: Scheduler,
    begin: Begin,
    deliver: Deliver,
    clock: Callable[[], float],
    awake_s: float = 0.0,
) -> None:
    """Runs on the device thread until the scheduler stops or fails; what was enqueued by then is
    waited for.

    `deliver(batch, works, results, alone)` gets one result or exception per ticket, in batch order.
    It is called on the reader's thread, or on this one for a batch that was done when enqueued or
    that it waited for itself: a small one, alone. `awake_s`: how long it stays awake after that, 0
    leaves all waiting to the reader."""
    loop = _Loop(scheduler, begin, deliver, clock, awake_s)
    reader = Reader(loop.wait, loop.conclude, loop.crashed)
    try:
        loop.run(reader)
    finally:
        reader.close()


class _Loop:
    def __init__(
        self,
        scheduler: Scheduler,
        begin: Begin,
        deliver: Deliver,
        clock: Callable[[], float],
        awake_s: float,
    ) -> None:
        self._scheduler = scheduler
        self._begin = begin
        self._deliver = deliver
        self._clock = clock
        self._awake_s = awake_s
        self._last_end = 0.0  # of a part, by the reader's clock

    def run(self, reader: Reader) -> None:
        """On the device thread."""
        unfinished: Flying | None = None  # the long batch that has parts left
        while (turn := self._scheduler.take(resumable=unfinished is not None)) is not None:
            if isinstance(turn, Errand):
                turn.run()
            elif not isinstance(turn, Resume):
                unfinished = self._start(turn, unfinished, reader)
            elif unfinished is not None and not self._enqueue(unfinished, reader):
                unfinished = None
            del turn  # else the last batch's data lives until the next one comes

    def _start(self, batch: Batch, unfinished: Flying | None, reader: Reader) -> Flying | None:
        """Enqueue a batch's first part; the batch that has parts left after it."""
        flying = Flying(batch, [ticket.work for ticket in batch.tickets])
        more = self._enqueue(flying, reader)
        if more and unfinished is None:
            return flying
        while more:  # between the parts of another, a batch is not left half done
            more = self._enqueue(flying, reader)
        return unfinished

    def _enqueue(self, flying: Flying, reader: Reader) -> bool:
        """Enqueue the batch's next part; whether there are more."""
        more, enqueued, began = False, False, self._clock()
        try:
            if flying.flight is None:
                flying.flight = self._begin(flying.batch.lane, flying.works)
            more = flying.flight.enqueue()
            enqueued = True
            if not flying.flight.waits:
                flying.flight.wait()  # nobody else will: the part is done
        except BaseException as error:
            self._failed(flying, error)
        if flying.flight is None or not flying.flight.waits:
            flying.seconds += self._clock() - began
            if not more:
                self.conclude(flying, alone=self._scheduler.nothing_waits())
            return more
        single = enqueued and not more and flying.parts == 0
        if enqueued:
            self._scheduler.enqueued(flying.batch.expected_s if single else PART_S)
            flying.parts += 1
        if not (single and self._awake_s and self._waited_here(flying)):
            reader.put(flying, self._clock(), enqueued=enqueued, last=not more)
        return more

    def _waited_here(self, flying: Flying) -> bool:
        """Wait awake for a small batch while nobody else needs this thread, and hand on its
        results; False as soon as somebody does: the reader has to wait then.

        The next request, if it comes at once, meets a thread that is awake and has rehearsed."""
        began, flight = self._clock(), flying.flight
        assert flight is not None
        if len(flying.works) > FEW:
            return False
        end = began + flying.batch.expected_s
        rehearsal = Rehearsal(flying.batch.tickets[-1].rehearse, end, self._clock)
        while self._scheduler.alone_on_device():
            if flight.done():
                try:
                    self.wait(flying, began)
                    self.conclude(flying, alone=True)
                except BaseException as error:  # as the reader's own fault would be
                    self.crashed(error)
                rehearsal.run()  # the caller has the answer, and takes a moment
                self._scheduler.stay_awake(self._clock() + self._awake_s)
                return True
            rehearsal.step()
            breathe()
        return False

    def wait(self, flying: Flying, began: float) -> None:
        """On the thread that waits: until the oldest part that was enqueued is done."""
        assert flying.flight is not None
        try:
            flying.flight.wait()
        except BaseException as error:
            self._failed(flying, error)
        now = self._clock()
        flying.seconds += now - max(began, self._last_end)
        self._last_end = now
        self._scheduler.part_done()

    def conclude(self, flying: Flying, alone: bool) -> None:
        """Every part is done: hand on the results, or the error of each request."""
        results = self._results(flying)
        if results is None:
            return  # the device is lost and every caller knows
        ended = self._clock()
        for ticket in flying.batch.tickets:
            ticket.stamps.device_end = ended
        self._scheduler.done(flying.batch, flying.seconds)
        self._deliver(flying.batch, flying.works, results, alone)

    def crashed(self, error: BaseException) -> None:
        """A fault of our own: nobody would learn of what is still to be read."""
        log.critical("reading what the device did broke", exc_info=error)
        self._scheduler.fail(f"reading what the device did broke: {type(error).__name__}")

    def _results(self, flying: Flying) -> Sequence[Any] | None:
        """Results or errors, one per work; None if the device is lost."""
        works, lane = flying.works, flying.batch.lane
        results: Sequence[Any] = ()
        if flying.error is None:
            assert flying.flight is not None
            try:
                results = flying.flight.results()
                for result in results:
                    if isinstance(result, EngineDownError):
                        raise result
            except BaseException as error:
                self._failed(flying, error)
        if isinstance(flying.error, Exception) and not isinstance(flying.error, EngineDownError):
            return [_batch_error(flying.error) for _ in works]
        if flying.error is not None:
            return None
        if len(results) != len(works):
            log.error("%s returned %d results for %d requests", lane, len(results), len(works))
            wrong = f"the executor returned {len(results)} results for {len(works)} requests"
            return [EngineFaultError(wrong, code="result_mismatch") for _ in works]
        return results

    def _failed(self, flying: Flying, error: BaseException) -> None:
        """Note a batch's first error; one that is not the batch's own fails the engine."""
        flying.error = flying.error or error
        lane, count = flying.batch.lane, len(flying.works)
        if isinstance(error, EngineDownError):
            log.error("device lost while running %s: %s", lane, error, exc_info=error)
            self._scheduler.fail(f"device lost: {error}")
        elif isinstance(error, Exception):
            log.error("a batch of %d failed in %s", count, lane, exc_info=error)
        else:
            log.error("the device worker was ended in %s", lane, exc_info=error)
            self._scheduler.fail(f"device worker ended: {type(error).__name__}")


def _batch_error(error: Exception) -> SystoneError:
    """One exception object per caller: a raised one grows a traceback in the caller's thread."""
    if isinstance(error, CapacityError):
        return CapacityError(str(error), retry_after_s=error.retry_after_s, status=error.status)
    if isinstance(error, EngineFaultError):
        return EngineFaultError(str(error), code=error.code)
    fault = EngineFaultError(f"the batch failed: {type(error).__name__}")
    fault.__cause__ = error
    return fault
