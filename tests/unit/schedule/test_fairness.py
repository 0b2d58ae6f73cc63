import pytest
from hypothesis import given
from hypothesis import strategies as st

from systone.schedule.fairness import DeficitRoundRobin

QUANTUM_S = 0.02


def test_nothing_waiting_means_no_turn() -> None:
    assert DeficitRoundRobin(("a", "b"), QUANTUM_S).choose([]) is None


def test_a_model_alone_always_has_its_turn_whatever_it_used() -> None:
    turns = DeficitRoundRobin(("a", "b"), QUANTUM_S)
    for _ in range(20):
        assert turns.choose(["a"]) == "a"
        turns.charge("a", 7.3)


def test_a_model_keeps_its_turn_until_its_credit_is_used() -> None:
    turns = DeficitRoundRobin(("a", "b"), QUANTUM_S)
    order = []
    for _ in range(8):
        name = turns.choose(["a", "b"])
        order.append(name)
        turns.charge(name, 0.01)
    first, second = order[0], order[2]
    assert order == [first, first, second, second] * 2
    assert {first, second} == {"a", "b"}


def test_an_idle_model_saves_nothing_up() -> None:
    turns = DeficitRoundRobin(("a", "b"), QUANTUM_S)
    for _ in range(100):  # b idles through many rounds
        assert turns.choose(["a"]) == "a"
        turns.charge("a", QUANTUM_S)
    used = {"a": 0.0, "b": 0.0}
    for _ in range(10):
        name = turns.choose(["a", "b"])
        turns.charge(name, 0.01)
        used[name] += 0.01
    assert abs(used["a"] - used["b"]) <= QUANTUM_S + 0.01


def test_debt_of_a_long_batch_is_paid_while_the_others_run() -> None:
    turns = DeficitRoundRobin(("a", "b"), QUANTUM_S)
    name = turns.choose(["a"])
    turns.charge("a", 1.0)
    ran_b = 0.0
    while (name := turns.choose(["a", "b"])) == "b":
        turns.charge("b", 0.01)
        ran_b += 0.01
    assert name == "a"
    assert ran_b == pytest.approx(1.0, abs=2 * QUANTUM_S + 0.01)


@given(
    st.lists(st.floats(0.0005, 0.2), min_size=50, max_size=200),
    st.lists(st.floats(0.0005, 0.2), min_size=50, max_size=200),
)
def test_two_busy_models_get_equal_device_time(of_a: list[float], of_b: list[float]) -> None:
    turns = DeficitRoundRobin(("a", "b"), QUANTUM_S)
    batches = {"a": iter(of_a), "b": iter(of_b)}
    used = {"a": 0.0, "b": 0.0}
    longest = max(*of_a, *of_b)
    while True:
        name = turns.choose(["a", "b"])
        seconds = next(batches[name], None)
        if seconds is None:
            return
        turns.charge(name, seconds)
        used[name] += seconds
        assert abs(used["a"] - used["b"]) <= 2 * (QUANTUM_S + longest)


@given(st.data())
def test_whoever_waits_gets_a_turn(data: st.DataObject) -> None:
    names = ("a", "b", "c")
    turns = DeficitRoundRobin(names, QUANTUM_S)
    for _ in range(40):
        waiting = data.draw(st.sets(st.sampled_from(names), min_size=1))
        chosen = turns.choose(waiting)
        assert chosen in waiting
        turns.charge(chosen, data.draw(st.floats(0.0, 50.0)))
