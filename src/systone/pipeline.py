"""The CPU steps of a request: prepare before the device, finish after it.

Owns how a model's errors become outcomes and the check that read-outs belong to their rows. Every
path ends in one report to the scheduler; a broad catch turns our own bugs into a 500 of that
request only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from systone.errors import EngineFaultError, SystoneError
from systone.models.base import Adapter, Prepared, Readout
from systone.protocol.types import Decision, Request
from systone.schedule.scheduler import Scheduler
from systone.schedule.ticket import Phase, Ticket

__all__ = ["finish", "prepare"]

log = logging.getLogger("systone.engine")

Clock = Callable[[], float]


def prepare(
    scheduler: Scheduler, adapter: Adapter, request: Request, ticket: Ticket, clock: Clock
) -> None:
    """Check and tokenise one request, then queue it."""
    if ticket.phase is not Phase.PREPARING:
        return  # the caller left, or the deadline passed, before a worker was free
    ticket.stamps.prepare_start = clock()
    try:
        prepared = adapter.prepare(request)
    except SystoneError as error:
        scheduler.settle(ticket, error=error)
    except Exception as error:
        log.error("prepare failed in %s", ticket.lane, exc_info=True)
        scheduler.settle(ticket, error=_fault("prepare", error))
    else:
        ticket.stamps.prepare_end = clock()
        scheduler.ready(ticket, prepared, prepared.cost)


def finish(
    scheduler: Scheduler,
    adapter: Adapter,
    tickets: Sequence[Ticket],
    works: Sequence[Prepared],
    results: Sequence[Readout | Exception],
    clock: Clock,
) -> None:
    """Turn each request's read-outs into its answer, or its error."""
    for ticket, prepared, result in zip(tickets, works, results, strict=True):
        ticket.stamps.finish_start = clock()
        try:
            decision = _answer(adapter, prepared, result)
        except SystoneError as error:
            scheduler.settle(ticket, error=error)
        except Exception as error:
            log.error("finish failed in %s", ticket.lane, exc_info=True)
            scheduler.settle(ticket, error=_fault("finish", error))
        else:
            ticket.stamps.finish_end = clock()
            scheduler.settle(ticket, result=decision)


def _answer(adapter: Adapter, prepared: Prepared, result: Any) -> Decision:
    if isinstance(result, SystoneError):
        raise result
    if isinstance(result, Exception):
        raise EngineFaultError(f"the device reported {type(result).__name__}") from result
    shape = result.values.shape
    if len(shape) != 2 or shape[0] != prepared.cost.rows:
        raise EngineFaultError(
            f"the device returned scores {shape} for {prepared.cost.rows} rows",
            code="result_mismatch",
        )
    return adapter.finish(prepared, result)


def _fault(step: str, error: Exception) -> EngineFaultError:
    fault = EngineFaultError(f"{step} failed: {type(error).__name__}", code=f"{step}_failed")
    fault.__cause__ = error
    return fault
