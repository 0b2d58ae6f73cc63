"""Formulas of calibration: golden values, edge scores, order independence."""

import math
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systone.errors import EngineFaultError
from systone.models.calibration import (
    argmax,
    choice_confidence,
    expected_level,
    score_confidence,
    sigmoid,
    softmax,
)

T = 2.5343690298472983
finite = st.floats(-1e4, 1e4, allow_nan=False)


def close(a, b):
    assert a == pytest.approx(b, rel=0, abs=1e-12)


def test_softmax_and_score_reproduce_the_published_golden_numbers():
    p = softmax([-2.0, -1.0, 0.0], T)
    close(p, (0.21343437444688138, 0.3166841593736535, 0.4698814661794651))
    close(choice_confidence(p), 0.20482219926919762)
    close(expected_level(p), 1.2564470917325836)
    assert score_confidence(p) == 0.0


def test_two_way_softmax_and_sigmoid_reproduce_the_published_noul():
    close(softmax([-2.0, -1.0], T)[1], 0.5973836777434065)
    close(sigmoid(1.0, T), 0.5973836777434065)
    close(sigmoid(-1.0, T), 1 - 0.5973836777434065)


@pytest.mark.parametrize(
    ("p", "expected"), [((0.7, 0.2, 0.1), 0.55), ((1.0,), 1.0), ((0.25,) * 4, 0.0), ((1.0, 0.0), 1)]
)
def test_choice_confidence_check_values(p, expected):
    close(choice_confidence(p), expected)


@pytest.mark.parametrize(
    ("p", "expected"),
    [((0.1, 0.6, 0.2, 0.1), 0.5), ((0.5, 0, 0.5), 0.0), ((0, 0.95, 0.05), 0.925), ((1.0,), 1.0)],
)
def test_score_confidence_check_values(p, expected):
    close(score_confidence(p), expected)


@pytest.mark.parametrize(
    ("n", "d"),
    [(2, 0.5), (3, 2 / 3), (4, 1), (5, 1.2), (6, 1.5), (7, 12 / 7), (9, 20 / 9), (10, 2.5)],
)
def test_score_confidence_divides_by_the_uniform_spread(n, d):
    p = [0.0] * n
    p[0], p[1] = 0.75, 0.25
    close(score_confidence(p), 1 - 0.25 / d)


def test_choice_confidence_is_zero_for_uniform_and_near_one_for_a_dominant_option():
    for n in (2, 3, 255):
        assert choice_confidence(softmax([0.0] * n)) == pytest.approx(0, abs=1e-12)
        assert choice_confidence(softmax([50.0] + [0.0] * (n - 1))) > 0.999999
    assert choice_confidence(softmax([3.0])) == 1.0


def test_a_ruled_out_option_has_probability_exactly_zero():
    p = softmax([1.0, -math.inf, 1.0])
    assert p == (0.5, 0.0, 0.5)


@pytest.mark.parametrize(
    "scores", [[math.nan, 1.0], [1.0, math.inf], [-math.inf, -math.inf], [-math.inf]]
)
def test_scores_without_a_finite_reading_are_our_fault(scores):
    with pytest.raises(EngineFaultError) as caught:
        softmax(scores)
    assert caught.value.code == "non_finite_output"


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_non_finite_noul_score_is_our_fault(score):
    with pytest.raises(EngineFaultError) as caught:
        sigmoid(score)
    assert caught.value.code == "non_finite_output"


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_an_unusable_temperature_is_refused(temperature):
    with pytest.raises(ValueError, match="temperature"):
        softmax([1.0], temperature)
    with pytest.raises(ValueError, match="temperature"):
        sigmoid(1.0, temperature)


def test_empty_inputs_are_refused():
    with pytest.raises(ValueError, match="no scores"):
        softmax([])
    with pytest.raises(ValueError, match="no values"):
        argmax([])


def test_ties_go_to_the_first():
    assert argmax([1.0, 3.0, 3.0]) == 1
    assert argmax([0.0, 0.0]) == 0


def test_extreme_scores_stay_inside_the_unit_interval():
    assert sigmoid(1e308) == 1.0
    assert sigmoid(-1e308) == 0.0
    assert softmax([1e308, -1e308]) == (1.0, 0.0)


@given(st.lists(finite, min_size=2, max_size=5), st.floats(0.1, 10))
def test_order_of_options_never_changes_a_bit(scores, temperature):
    expected = dict(zip(scores, softmax(scores, temperature), strict=True))
    for order in permutations(scores):
        assert softmax(order, temperature) == tuple(expected[s] for s in order)


@given(st.lists(finite, min_size=1, max_size=255))
def test_probabilities_sum_to_one_and_figures_stay_in_range(scores):
    p = softmax(scores)
    assert math.fsum(p) == pytest.approx(1, abs=1e-12)
    assert 0 <= expected_level(p) <= len(p) - 1
    assert 0 <= choice_confidence(p) <= 1
    assert 0 <= score_confidence(p) <= 1


def test_expected_level_is_clamped_against_rounding():
    assert expected_level((0.0, 1.0 + 1e-15)) == 1.0


@given(finite, st.floats(0.1, 10))
def test_sigmoid_is_the_two_way_softmax(score, temperature):
    assert sigmoid(score, temperature) == pytest.approx(
        softmax([0.0, score], temperature)[1], abs=1e-15
    )
