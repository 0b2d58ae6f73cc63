import itertools
import threading
import time

import pytest

from systone.bench.loops import arrivals_ns, run_closed, run_open


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_a_closed_loop_keeps_exactly_so_many_in_flight(concurrency: int) -> None:
    count = concurrency * 5
    together = threading.Barrier(concurrency)  # opens only if so many wait at once
    lock, active, most = threading.Lock(), [0], [0]

    def answer(worker: int, number: int) -> int:
        with lock:
            active[0] += 1
            most[0] = max(most[0], active[0])
        together.wait(timeout=5)
        with lock:
            active[0] -= 1
        return number

    done: list[int | None] = [None] * count
    run_closed(count, concurrency, answer, done)
    assert done == list(range(count))
    assert most[0] == concurrency


def test_an_open_loop_does_not_wait_for_answers() -> None:
    count = 12
    all_started = threading.Barrier(count)

    def answer(worker: int, number: int, due: int) -> bool:
        all_started.wait(timeout=5)  # nobody is answered before the last has started
        return True

    done: list[bool | None] = [None] * count
    run_open([i * 1_000_000 for i in range(count)], count, answer, done)
    assert all(done)


def test_an_open_loop_never_starts_a_request_before_it_is_due() -> None:
    due_ns = [0, 20_000_000, 20_000_000, 45_000_000]
    done: list[tuple[int, int] | None] = [None] * 4
    run_open(due_ns, 4, lambda worker, i, due: (time.perf_counter_ns(), due), done)
    found = [pair for pair in done if pair is not None]
    assert all(begin >= due for begin, due in found)
    first = found[0][1]
    assert [due - first for _, due in found] == due_ns


def test_requests_wait_for_a_free_worker_and_keep_the_time_they_were_due() -> None:
    def answer(worker: int, number: int, due: int) -> int:
        begin = time.perf_counter_ns()
        time.sleep(0.02)
        return begin - due

    late: list[int | None] = [None] * 3
    run_open([0, 0, 0], 1, answer, late)
    assert late[2] is not None
    assert late[2] >= 40_000_000


def test_arrivals_are_poisson_by_rate_and_seed() -> None:
    due_ns = arrivals_ns(50.0, 5000, "s")
    assert due_ns == sorted(due_ns)
    assert due_ns[-1] / 1e9 == pytest.approx(100.0, rel=0.05)
    gaps = [b - a for a, b in itertools.pairwise(due_ns)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert spread / mean == pytest.approx(1.0, rel=0.05)  # exponential: as wide as its mean
    assert due_ns == arrivals_ns(50.0, 5000, "s")
    assert due_ns != arrivals_ns(50.0, 5000, "t")


def test_a_fault_of_the_client_is_raised_not_recorded() -> None:
    def answer(worker: int, number: int) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_closed(4, 2, answer, [None] * 4)
