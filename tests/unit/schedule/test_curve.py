import pytest

from systone.schedule.curve import TimeCurve


def test_an_untaught_curve_estimates_nothing() -> None:
    assert TimeCurve().estimate(5000, 3) == 0.0


def test_a_line_is_recovered_from_batches_of_different_sizes() -> None:
    curve = TimeCurve()
    for tokens in (64, 512, 128, 2048, 1024, 64):
        curve.observe(tokens, 0.004 + 2e-5 * tokens)
    base, per_token = curve.line()
    assert base == pytest.approx(0.004, rel=1e-6)
    assert per_token == pytest.approx(2e-5, rel=1e-6)
    assert curve.estimate(1000, 2) == pytest.approx(0.008 + 0.02)


def test_batches_of_one_size_lay_the_time_on_the_tokens() -> None:
    curve = TimeCurve()
    for _ in range(5):
        curve.observe(100, 0.01)
    assert curve.estimate(100) == pytest.approx(0.01)
    assert curve.estimate(1000) == pytest.approx(0.1)  # dearer than it may be, never cheaper


def test_batches_without_tokens_are_a_constant() -> None:
    curve = TimeCurve()
    curve.observe(0, 0.003)
    assert curve.line() == (pytest.approx(0.003), 0.0)


def test_a_falling_line_is_flattened_to_the_mean() -> None:
    curve = TimeCurve()
    curve.observe(10, 0.05)
    curve.observe(1000, 0.01)
    base, per_token = curve.line()
    assert per_token == 0.0
    assert 0.01 < base < 0.05


def test_a_negative_base_is_set_to_zero() -> None:
    curve = TimeCurve()
    curve.observe(10, 0.001)
    curve.observe(100, 0.1)
    base, per_token = curve.line()
    assert base == 0.0
    assert per_token > 0.0


@pytest.mark.parametrize("stall_s", [0.5, 30.0, 3600.0])
def test_one_stall_hardly_moves_the_curve(stall_s: float) -> None:
    """A machine put to sleep, a process stopped: the batch says nothing of the next one."""
    curve = TimeCurve()
    for i in range(100):
        curve.observe(25 + i % 9, 0.02)
    before = curve.estimate(1200, 40)
    curve.observe(30, stall_s)
    assert curve.estimate(1200, 40) < 1.2 * before


@pytest.mark.parametrize(("before", "after", "batches"), [(1.0, 0.01, 300), (0.01, 1.0, 60)])
def test_the_curve_follows_a_device_that_became_faster_or_slower(
    before: float, after: float, batches: int
) -> None:
    curve = TimeCurve()
    for i in range(200):
        curve.observe(100 + i % 50, before)
    for i in range(batches):
        curve.observe(100 + i % 50, after)
    assert after / 2 < curve.estimate(120) < 2 * after
