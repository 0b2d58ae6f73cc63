"""The device thread's loop: take a batch, run it, hand its results on, until the end.

Owns the border between executors and callers: an exception fails its batch only, an error entry
its request only, a lost device everyone (health first). Knows no model: `execute` runs a lane's
works, `deliver` takes what came out to the workers that finish answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from systone.errors import CapacityError, EngineDownError, EngineFaultError, SystoneError
from systone.schedule.budget import Batch
from systone.schedule.scheduler import Scheduler

__all__ = ["run_batches"]

log = logging.getLogger("systone.schedule")

Execute = Callable[[str, Sequence[Any]], Sequence[Any]]
Deliver = Callable[[Batch, Sequence[Any], Sequence[Any]], None]


def run_batches(
    scheduler: Scheduler, execute: Execute, deliver: Deliver, clock: Callable[[], float]
) -> None:
    """Runs on the device thread until the scheduler stops or fails.

    `deliver(batch, works, results)` gets one result or exception per ticket, in batch order."""
    while (batch := scheduler.take()) is not None:
        works = [ticket.work for ticket in batch.tickets]
        started = clock()
        results = _attempt(scheduler, execute, batch.lane, works)
        ended = clock()
        for ticket in batch.tickets:
            ticket.stamps.device_end = ended
        if results is None:
            return  # the device is lost and every caller knows
        scheduler.done(batch, ended - started)
        deliver(batch, works, results)
        del batch, works, results  # else the last batch's data lives until the next one comes


def _attempt(
    scheduler: Scheduler, execute: Execute, lane: str, works: Sequence[Any]
) -> Sequence[Any] | None:
    """Results or errors, one per work; None if the device is lost."""
    try:
        results = execute(lane, works)
        for result in results:
            if isinstance(result, EngineDownError):
                raise result
    except EngineDownError as error:
        log.error("device lost while running %s: %s", lane, error, exc_info=True)
        scheduler.fail(f"device lost: {error}")
        return None
    except Exception as error:
        log.error("a batch of %d failed in %s", len(works), lane, exc_info=True)
        return [_batch_error(error) for _ in works]
    except BaseException as error:
        log.error("the device worker was ended in %s", lane, exc_info=True)
        scheduler.fail(f"device worker ended: {type(error).__name__}")
        return None
    if len(results) != len(works):
        log.error("%s returned %d results for %d requests", lane, len(results), len(works))
        wrong = f"the executor returned {len(results)} results for {len(works)} requests"
        return [EngineFaultError(wrong, code="result_mismatch") for _ in works]
    return results


def _batch_error(error: Exception) -> SystoneError:
    """One exception object per caller: a raised one grows a traceback in the caller's thread."""
    if isinstance(error, CapacityError):
        return CapacityError(str(error), retry_after_s=error.retry_after_s, status=error.status)
    if isinstance(error, EngineFaultError):
        return EngineFaultError(str(error), code=error.code)
    fault = EngineFaultError(f"the batch failed: {type(error).__name__}")
    fault.__cause__ = error
    return fault
