import threading
import time

from systone.schedule.bell import Bell


def test_a_ring_wakes_the_sleeper() -> None:
    bell = Bell(time.monotonic)
    threading.Timer(0.02, bell.ring).start()
    began = time.monotonic()
    assert bell.sleep(5.0)
    assert time.monotonic() - began < 1.0


def test_a_ring_before_the_sleep_is_not_lost_and_counts_once() -> None:
    bell = Bell(time.monotonic)
    bell.ring()
    assert bell.sleep(5.0)
    assert not bell.sleep(0.0)


def test_a_sleep_ends_by_itself() -> None:
    assert not Bell(time.monotonic).sleep(0.01)
