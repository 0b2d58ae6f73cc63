"""The read-outs on hand-made tables: what moves an answer, what must not, what can't be read."""

import math

import numpy as np
import pytest

from systone.errors import EngineFaultError
from systone.models.calibration import sigmoid, softmax
from systone.models.mini.readout import choice_scores, level_scores, noul_log_odds
from systone.models.mini.table import (
    BACKGROUND,
    CONTRAST,
    FACTS,
    NEARNESS,
    OPINION,
    READING,
    Table,
)
from systone.models.mini.work import NoulRows, OptionRows

CONTRASTS = 2
VIEW = FACTS + CONTRASTS


def table(similarities, *, windows=1, background=0.1):
    """Rows of similarities with each view, every background the same."""
    similarities = np.atleast_2d(np.array(similarities, dtype=np.float64))
    values = np.zeros((len(similarities), VIEW + similarities.shape[1]))
    values[:, VIEW:] = similarities
    values[:, BACKGROUND] = background
    return Table(values, windows, similarities.shape[1])


def blank(rows):
    return Table(np.zeros((rows, VIEW)), 0, 0)


def options(n, **more):
    return OptionRows(tuple(range(n)), **more)


def test_the_most_similar_option_wins_and_ties_are_equal():
    scores = choice_scores(table([[0.2], [0.5], [0.2]]), options(3))
    assert scores[1] > scores[0] == scores[2]


def test_similarity_is_counted_from_each_options_own_background():
    found = table([[0.5], [0.4]])
    found.values[0, BACKGROUND] = 0.45
    scores = choice_scores(found, options(2))
    assert scores[1] > scores[0]


def test_a_state_below_every_background_gives_near_uniform_probabilities():
    p = softmax(choice_scores(table([[-0.1], [0.0], [-0.2], [-0.05]]), options(4)))
    assert max(p) < 0.4
    related = softmax(choice_scores(table([[0.5], [0.1], [0.1], [0.1]]), options(4)))
    assert max(related) > 0.9


def test_nothing_to_read_is_exactly_uniform():
    assert softmax(choice_scores(blank(3), options(3))) == (1 / 3,) * 3
    assert len(set(softmax(level_scores(blank(4), options(4))))) == 1
    assert noul_log_odds(blank(2), NoulRows(sentence=0, key=1), scored=False) == 0.0


def test_an_option_without_text_has_no_evidence():
    scores = choice_scores(table([[0.5]]), OptionRows((None, 0)))
    assert scores[0] == 0.0 < scores[1]


def test_a_nan_similarity_never_becomes_an_answer():
    for rows in ([[math.nan], [0.2]], [[0.3], [math.nan]]):
        with pytest.raises(EngineFaultError):
            softmax(choice_scores(table(rows), options(2)))
        with pytest.raises(EngineFaultError):
            softmax(level_scores(table(rows), options(2)))
    with pytest.raises(EngineFaultError):
        sigmoid(noul_log_odds(table([[math.nan]]), NoulRows(sentence=0), scored=False))


def test_an_option_ruled_out_has_probability_zero_and_spoils_no_other():
    p = softmax(choice_scores(table([[-math.inf], [0.3], [0.3]]), options(3)))
    assert p == (0.0, 0.5, 0.5)
    p = softmax(level_scores(table([[0.3], [-math.inf], [0.3]]), options(3)))
    assert p == (0.5, 0.0, 0.5)


def test_a_state_of_one_window_is_read_whole():
    found = table([[0.3, 0.9], [0.4, 0.1]], windows=1)
    scores = choice_scores(found, options(2))
    assert scores[1] > scores[0]


def test_one_sentence_of_a_long_state_can_decide():
    found = table([[0.2, 0.2, 0.1, 0.9], [0.3, 0.3, 0.1, 0.1]], windows=2)
    scores = choice_scores(found, options(2))
    assert scores[0] > scores[1]


def test_levels_lean_on_their_neighbours():
    lonely = level_scores(table([[0.5], [0.0], [0.0], [0.0]]), options(4))
    assert lonely[0] > lonely[1] > lonely[3]


def test_a_single_level_is_certain():
    assert softmax(level_scores(table([[0.3]]), options(1))) == (1.0,)


def degree_table(positions, reading, nearness=0.6):
    found = table([[0.2]] * (len(positions) + 1))
    found.values[: len(positions), FACTS + 1] = positions
    key = found.values[len(positions)]
    key[CONTRAST], key[NEARNESS], key[READING] = 1, nearness, reading
    return found


def test_a_question_of_degree_places_the_state_between_its_options():
    ask = options(2, poles=(0, 1), key=2)
    low = choice_scores(degree_table([-0.2, 0.2], -0.2), ask)
    high = choice_scores(degree_table([-0.2, 0.2], 0.2), ask)
    assert low[0] > low[1]
    assert high[1] > high[0]


def test_levels_follow_the_state_along_the_contrast():
    ask = options(4, poles=(0, 1, 2, 3), key=4)
    modes = []
    for reading in (-0.3, -0.1, 0.1, 0.3):
        scores = level_scores(degree_table([-0.3, -0.1, 0.1, 0.3], reading), ask)
        modes.append(int(np.argmax(scores)))
    assert modes == [0, 1, 2, 3]


def test_levels_out_of_order_on_the_contrast_ignore_it():
    ask = options(4, poles=(0, 1, 2, 3), key=4)
    scores = level_scores(degree_table([0.3, -0.3, -0.3, 0.3], 0.3), ask)
    assert len({round(s, 9) for s in scores}) == 1


def test_a_far_contrast_or_equal_options_change_nothing():
    ask = options(2, poles=(0, 1), key=2)
    for found in (
        degree_table([-0.2, 0.2], 0.2, nearness=0.2),
        degree_table([0.1, 0.1], 0.5),
    ):
        scores = choice_scores(found, ask)
        assert scores[0] == scores[1]


def test_two_described_sides_are_a_choice_between_them():
    rows = NoulRows(true=0, false=1)
    assert noul_log_odds(table([[0.6], [0.2]]), rows, scored=False) > 0
    assert noul_log_odds(table([[0.2], [0.6]]), rows, scored=False) < 0
    assert noul_log_odds(table([[0.4], [0.4]]), rows, scored=False) == 0


def test_a_described_no_counts_against():
    with_no = NoulRows(sentence=0, false=1)
    far, near = (
        noul_log_odds(table([[0.3], [value]]), with_no, scored=False) for value in (0.1, 0.6)
    )
    assert near < far


def test_a_contrast_counts_by_how_near_the_question_is():
    def odds(nearness):
        found = table([[0.2], [0.2]])
        found.values[1, [NEARNESS, READING]] = nearness, 0.3
        return noul_log_odds(found, NoulRows(sentence=0, key=1), scored=False)

    assert odds(0.1) == odds(0.2) < odds(0.4) < odds(0.6)


def test_a_second_models_opinion_decides_only_where_it_exists():
    found = table([[0.2], [0.2]])
    found.values[0, OPINION] = -1.5
    rows = NoulRows(sentence=0, key=1)
    assert noul_log_odds(found, rows, scored=True) == -1.5
    assert noul_log_odds(found, rows, scored=False) > 0
    sides = NoulRows(true=0, false=1)
    assert noul_log_odds(found, sides, scored=True) == 0


def test_undescribed_nouls_stay_near_one_half():
    strongest = table([[0.9], [0.9]])
    strongest.values[1, [NEARNESS, READING]] = 0.9, 0.6
    odds = noul_log_odds(strongest, NoulRows(sentence=0, key=1), scored=False)
    assert sigmoid(odds) < 0.95
    assert sigmoid(noul_log_odds(table([[0.4]]), NoulRows(sentence=0), scored=False)) < 0.6
