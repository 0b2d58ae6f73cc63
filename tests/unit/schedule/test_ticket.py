import pytest

from systone.schedule.ticket import Stamps


def test_durations_cover_the_steps_that_ended() -> None:
    stamps = Stamps()
    assert stamps.durations_s() == {}
    stamps.prepare_start, stamps.prepare_end = 1.0, 1.5
    assert stamps.durations_s() == {"prepare": 0.5}
    stamps.dispatched, stamps.device_end = 2.5, 4.5
    stamps.finish_start, stamps.finish_end = 5.0, 5.25
    assert stamps.durations_s() == pytest.approx(
        {"prepare": 0.5, "queue": 1.0, "device": 2.0, "finish": 0.25}
    )
