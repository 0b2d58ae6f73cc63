"""A model's queue: what it can say of the next batch before that is formed."""

from __future__ import annotations

from concurrent.futures import Future

from hypothesis import given
from hypothesis import strategies as st

from systone.models.base import Cost
from systone.schedule.budget import Budget
from systone.schedule.lane import Lane
from systone.schedule.ticket import Stamps, Ticket
from tests.unit.schedule.test_budget import BUDGETS, COST, COSTS


def push(lane: Lane, cost: Cost) -> Ticket:
    ticket = Ticket("m", None, Future(), Stamps())
    lane.push(ticket, cost)
    return ticket


@given(COSTS, BUDGETS, st.data())
def test_a_queue_overflows_when_nobody_who_comes_later_can_join_the_next_batch(
    costs: list[Cost], budget: Budget, data: st.DataObject
) -> None:
    lane = Lane("m", budget)
    waiting = [push(lane, cost) for cost in costs]
    for ticket in waiting:  # callers leave anywhere in the queue
        if data.draw(st.booleans()):
            lane.remove(ticket)
    front, overflows = lane.front(), lane.overflows
    if not overflows:
        assert len(front) == len(lane)
    later = push(lane, data.draw(COST))
    if overflows:
        assert lane.front() == front
    elif budget.holds(lane._load):
        assert lane.front() == [*front, later]
