from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systone.models.base import Cost
from systone.schedule.budget import Budget, Load, fill, load_of
from systone.schedule.ticket import Stamps, Ticket

COST = st.builds(Cost, st.integers(0, 60), st.integers(1, 12), st.integers(0, 5))
COSTS = st.lists(COST, max_size=30)
BUDGETS = st.builds(
    Budget, st.integers(1, 100), st.integers(1, 20), st.integers(1, 8), st.integers(1, 10)
)


def tickets(costs: list[Cost]) -> list[Ticket]:
    return [Ticket("m", None, Future(), Stamps(), cost=cost) for cost in costs]


@pytest.mark.parametrize(
    ("budget", "count"),
    [
        (Budget(30, 99, 99, 99), 3),
        (Budget(99, 4, 99, 99), 2),
        (Budget(99, 99, 3, 99), 3),
        (Budget(99, 99, 99, 1), 1),
        (Budget(29, 99, 99, 99), 2),
    ],
)
def test_every_budget_ends_a_batch(budget: Budget, count: int) -> None:
    waiting = tickets([Cost(10, 2, 1)] * 5)
    assert fill(waiting, budget) == waiting[:count]


def test_a_request_above_the_budget_runs_alone() -> None:
    small, large = Cost(1, 1), Cost(1000, 1)
    budget = Budget(10, 10, 10, 10)
    first = tickets([large, small])
    assert fill(first, budget) == first[:1]
    second = tickets([small, large, small])
    assert fill(second, budget) == second[:1]  # and nobody overtakes it


def test_an_empty_queue_gives_an_empty_batch() -> None:
    assert fill([], Budget(1, 1, 1, 1)) == []


@given(COSTS, BUDGETS)
def test_batches_keep_order_and_budget_and_leave_nothing_that_fits(
    costs: list[Cost], budget: Budget
) -> None:
    waiting = tickets(costs)
    taken = fill(waiting, budget)
    assert taken == waiting[: len(taken)]
    assert bool(taken) == bool(waiting)
    assert budget.holds(load_of(taken)) or len(taken) == 1
    if taken and len(taken) < len(waiting):
        assert not budget.holds(load_of(waiting[: len(taken) + 1]))


@given(COSTS, BUDGETS)
def test_num_batches_is_a_lower_bound(costs: list[Cost], budget: Budget) -> None:
    waiting = tickets(costs)
    expected, batches = budget.num_batches(load_of(waiting)), 0
    if any(not budget.holds(Load().plus(cost)) for cost in costs):
        return  # such requests run alone, above the budget
    while waiting:
        waiting = waiting[len(fill(waiting, budget)) :]
        batches += 1
    assert expected <= batches


@given(COSTS)
def test_load_is_additive(costs: list[Cost]) -> None:
    load = load_of(tickets(costs))
    for cost in costs:
        load = load.minus(cost)
    assert load == Load()
