"""Waiting awake, and rehearsing what comes after the wait."""

import logging
from itertools import pairwise

from systone.schedule.awake import EVERY_S, FIRST_S, LAST_S, Rehearsal, awake_until
from tests.fakes import FakeClock


def test_the_wait_ends_with_what_came_or_with_the_time() -> None:
    ticks = iter(range(100))
    assert awake_until(lambda: next(ticks) == 3, 50.0, lambda: 0.0)
    assert next(ticks) == 4
    times = iter([1.0, 1.5, 2.0])
    assert not awake_until(lambda: False, 2.0, lambda: next(times))


def test_a_rehearsal_is_held_shortly_before_the_end_and_not_at_it() -> None:
    clock, held = FakeClock(), []
    end = clock.now + 1.0
    rehearsal = Rehearsal(lambda: held.append(clock.now), end, clock)
    while clock.now < end + 0.1:
        rehearsal.step()
        clock.advance(0.00005)
    assert held
    assert all(end - FIRST_S <= at < end - LAST_S for at in held)
    assert all(b - a >= EVERY_S for a, b in pairwise(held))


def test_a_job_that_breaks_is_told_of_once_and_not_tried_again(caplog) -> None:
    clock, tried = FakeClock(), []

    def job() -> None:
        tried.append(1)
        raise ValueError("changed")

    rehearsal = Rehearsal(job, clock.now, clock)
    with caplog.at_level(logging.ERROR):
        rehearsal.run()
        rehearsal.run()
    assert len(tried) == len(caplog.records) == 1


def test_nothing_to_rehearse_is_nothing_to_do() -> None:
    Rehearsal(None, 0.0, FakeClock()).run()


def test_there_is_time_for_two_rehearsals() -> None:
    assert FIRST_S - LAST_S > EVERY_S
