"""The settings file: temperatures by kind and number of options, unknown keys refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from systone.errors import ConfigError
from systone.models.label.options import LabelOptions, Temperatures, read_options


def written(directory: Path, value: Any) -> Path:
    path = directory / "decision.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_the_narrowest_band_counts(tmp_path: Path) -> None:
    temperature = {"choice": 2, "choice:3-9": 3.0, "choice:4": 4.0, "choice:27+": 5.0, "score": 0.5}
    written(tmp_path, {"temperature": temperature, "calibrated": True})
    found = read_options(tmp_path)
    of = found.temperatures.of
    asked = (2, 3, 4, 9, 10, 26, 27, 255)
    assert [of("choice", n) for n in asked] == [2, 3, 4, 3, 2, 2, 5, 5]
    assert (of("score", 7), of("noul", 2)) == (0.5, 1.0)
    assert found.calibrated


def test_defaults_are_uncalibrated_and_without_temperature(tmp_path: Path) -> None:
    assert read_options(tmp_path) == LabelOptions()
    assert not LabelOptions().calibrated
    assert Temperatures().of("choice", 3) == 1.0


def test_what_the_operator_says_beats_the_file(tmp_path: Path) -> None:
    written(tmp_path, {"preset": "onejev", "orders": "reverse"})
    assert read_options(tmp_path).preset == "onejev"
    found = read_options(tmp_path, preset="decider")
    assert (found.preset, found.orders) == ("decider", "reverse")
    other = tmp_path / "other.json"
    other.write_text('{"mode": "statement"}')
    assert read_options(tmp_path, file=other) == LabelOptions(mode="statement")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"presets": "onejev"}, "unknown key 'presets'"),
        ({"preset": "gpt"}, "preset 'gpt' is unknown"),
        ({"preset": 3}, "preset must be a string"),
        ({"orders": "all"}, "orders 'all'"),
        ({"calibrated": 1}, "true or false"),
        ({"temperature": 1.0}, "must be an object"),
        ({"temperature": {"choice:0x": 1.0}}, "choice:0x"),
        ({"temperature": {"choice:5-3": 1.0}}, "empty band"),
        ({"temperature": {"noul": 0}}, "positive"),
        ({"temperature": {"noul": True}}, "not a number"),
        ({"temperature": {"noul": 1e999}}, "positive and finite"),
        ({"mode": "statement", "orders": "reverse"}, "no order"),
        ("[]", "not a JSON object"),
        ("{", "not JSON"),
        ('{"preset": "onejev", "preset": "decider"}', "twice"),
    ],
)
def test_faults_are_one_line(tmp_path: Path, value: Any, message: str) -> None:
    written(tmp_path, value)
    with pytest.raises(ConfigError, match=message):
        read_options(tmp_path)


def test_a_file_that_is_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.json"):
        read_options(tmp_path, file=tmp_path / "missing.json")
