import math

import numpy as np
import pytest

from systone.bench.statistics import bootstrap_ratio, mean, nearest_rank


@pytest.mark.parametrize("size", [1, 2, 3, 19, 20, 21, 100, 693])
@pytest.mark.parametrize("percent", [1, 25, 50, 95, 99, 100])
def test_nearest_rank_is_numpys_inverted_cdf(size: int, percent: int) -> None:
    values = np.random.default_rng(size).exponential(size=size).tolist()
    assert nearest_rank(values, percent) == np.percentile(values, percent, method="inverted_cdf")


def test_a_percentile_is_always_one_of_the_values() -> None:
    assert nearest_rank([3.0, 1.0], 50) == 1.0
    assert nearest_rank([3.0, 1.0], 51) == 3.0
    assert nearest_rank([float(i) for i in range(1, 101)], 7) == 7.0


def test_nothing_has_no_mean_and_no_percentile() -> None:
    assert nearest_rank([], 50) is None
    assert mean([]) is None


def test_the_interval_of_a_constant_ratio_has_no_width() -> None:
    below = [1.0, 5.0, 2.0, 9.0]
    assert bootstrap_ratio([2 * b for b in below], below, seed=1) == (2.0, 2.0, 2.0)


def test_the_interval_holds_a_known_ratio_and_depends_on_its_seed_alone() -> None:
    rng = np.random.default_rng(3)
    below = rng.uniform(0.5, 1.5, 40)
    above = below * 1.1 * rng.normal(1.0, 0.02, 40)
    found = bootstrap_ratio(above.tolist(), below.tolist(), seed=5)
    assert found is not None
    ratio, low, high = found
    assert low < ratio < high
    assert low < 1.1 < high
    assert high - low < 0.03
    assert found == bootstrap_ratio(above.tolist(), below.tolist(), seed=5)
    assert found != bootstrap_ratio(above.tolist(), below.tolist(), seed=6)


def test_no_pairs_or_a_zero_give_no_ratio() -> None:
    assert bootstrap_ratio([], [], seed=0) is None
    assert bootstrap_ratio([1.0], [0.0], seed=0) is None


def test_a_mean_adds_exactly() -> None:
    assert mean([0.1] * 10) == math.fsum([0.1] * 10) / 10
