"""Formulas and rounding of Kev 1.0 answers."""

import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from systone.errors import EngineFaultError
from systone.models.base import Readout
from systone.models.calibration import softmax
from systone.models.kev.answers import answer, probabilities
from systone.models.pytext import round4
from systone.protocol.types import Choice, Noul, Request, Score

STATS = {"inference_seconds": 0.5, "prefix_cache": {}}


def logits_of(*shares: float) -> list[float]:
    return [math.log(p) if p else -60.0 for p in shares]


def test_the_contracts_score_confidence():
    found = answer(Score("", ["a", "b", "c"]), logits_of(0.0, 0.57, 0.43), 1.0, ["a", "b", "c"])
    assert found.confidence == 0.355
    assert found.score == 1.43
    assert found.probabilities == (0.0, 0.57, 0.43)


def test_a_noul_is_the_share_of_its_second_option():
    assert answer(Noul(""), logits_of(0.25, 0.75), 1.0, ()).noul == 0.75


def test_a_choice_takes_the_first_of_equals_and_keeps_the_callers_order():
    found = answer(Choice("", {"z": None, "a": None}), [1.5, 1.5], 2.0, ())
    assert found.choice == "z"
    assert list(found.probabilities.items()) == [("z", 0.5), ("a", 0.5)]
    assert found.confidence == 0.0


def test_one_option_or_level_is_certain():
    assert answer(Choice("", {"only": None}), [-3.0], 2.4, ()).confidence == 1.0
    level = answer(Score("", ["only"]), [7.0], 2.4, ["only"])
    assert (level.score, level.probabilities, level.confidence) == (0.0, (1.0,), 1.0)


def test_the_temperature_divides_logits():
    found = probabilities([0.0, 2.0], 2.0)
    assert found[1] == float(np.float32(1 / (1 + math.exp(-1))))
    assert probabilities([0.0, 2.0], 1.0)[1] > found[1]


@given(st.lists(st.floats(-60, 60), min_size=1, max_size=9), st.floats(0.1, 9))
def test_probabilities_are_those_of_the_softmax_in_fp32(logits, temperature):
    wanted = [float(np.float32(p)) for p in softmax(logits, temperature)]
    assert list(probabilities(logits, temperature)) == wanted


def test_rounding_goes_by_the_exact_value_and_ties_go_to_even():
    assert round4(0.00005) == 0.0001  # its binary value lies above the tie
    assert round4(0.00015) == 0.0001  # and this one's below
    assert (round4(2.5 / 2**15 * 2**11), round4(0.03125)) == (0.1562, 0.0312)


def test_probabilities_are_not_renormalised_after_rounding():
    found = answer(Choice("", dict.fromkeys("abc")), [0.0, 0.0, 0.0], 1.0, ())
    assert sum(found.probabilities.values()) == pytest.approx(0.9999)


@pytest.mark.parametrize("values", [[[1.0], [2.0]], [[1.0]] * 4, [[1.0, 2.0]] * 3])
def test_missing_or_surplus_logits_fail_the_request(adapter, values):
    prepared = adapter.prepare(Request("", {"q": Noul("")}))
    with pytest.raises(EngineFaultError, match="3 read-outs"):
        adapter.finish(prepared, Readout(np.array(values, np.float32), STATS))


def test_a_logit_that_is_not_finite_fails_the_request(adapter):
    prepared = adapter.prepare(Request("", {"q": Noul("")}))
    with pytest.raises(EngineFaultError, match="finite"):
        adapter.finish(prepared, Readout(np.array([[1], [np.nan], [0]], np.float32), STATS))


def test_the_last_read_out_of_each_question_is_not_an_option(adapter):
    request = Request("", {"a": Noul(""), "b": Choice("", {"x": None})})
    values = np.array([[1], [2], [99], [3], [99]], np.float32)
    decision = adapter.finish(adapter.prepare(request), Readout(values, STATS))
    assert decision.extras["logits"] == {"a": [1.0, 2.0], "b": [3.0]}


def test_a_legend_is_rendered_in_the_models_dialect_and_as_sent_elsewhere(adapter):
    questions = {"s": Score("", ["low", {"why": [1.0]}])}
    values = np.zeros((3, 1), np.float32)
    found = {}
    for dialect in ("default", "kev"):
        prepared = adapter.prepare(Request("", questions, dialect=dialect))
        found[dialect] = adapter.finish(prepared, Readout(values, STATS))
    assert found["default"].answers["s"].legend == ("low", {"why": [1.0]})
    assert found["kev"].answers["s"].legend == ("low", "why:\n  - 1.0")
    assert found["default"].usage == found["kev"].usage


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.dictionaries(
        st.text("abc 0123456789\u0663\u00bd\u0e54,.\"'", max_size=8),
        st.dictionaries(
            st.text("xy 789\n", max_size=5), st.floats(0, 10_000).map(lambda x: round(x, 4))
        ),
        max_size=4,
    )
)
def test_billed_tokens_are_those_of_the_very_text(adapter, answers):
    whole = adapter._tokenizer.encode(json.dumps(answers))
    assert adapter._output_tokens(answers) == whole.size
