"""Families side by side in one process: an encoder and a label read-out beside systone-mini."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from systone.weights.synth.laya import synthesize_laya
from tests.e2e.conftest import Server, launch
from tests.e2e.test_official_clients import jevcompat
from tests.unit.models_label.tiny_models import write_qwen

pytestmark = pytest.mark.slow

# The toy tokenizer spells words letter by letter, so 255 described options are 8,045 tokens.
MAX_LENGTH = "8192"


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("families")
    laya = synthesize_laya("tiny", 1, place / "laya")
    label = write_qwen(place / "label")
    running = launch(
        place / "log",
        *("--model", "systone-mini", "--model", str(laya), "--model", str(label)),
        *("--max-length", MAX_LENGTH),
        env={"OMP_NUM_THREADS": "1"},
    )
    yield running
    running.stop()


def test_every_family_meets_every_requirement(families, tmp_path) -> None:
    health = families.client.get("/health").json()
    names = [model["name"] for model in health["models"]]
    assert names[0] == "systone-mini"
    assert len(names) == 3
    for name in names[1:]:
        report = tmp_path / "report.json"
        assert jevcompat(families.url, report, name) == {"MUST": 0, "SHOULD": 0}, name
        assert json.loads(report.read_text())["model"] == name


def test_each_model_answers_under_its_own_name(families) -> None:
    names = [model["name"] for model in families.client.get("/health").json()["models"]]
    questions = {"q": {"type": "choice", "criteria": {"lamp": None, "kettle": None}}}
    answers = []
    for name in names:
        body = {"model": name, "state": "The lamp broke.", "questions": questions}
        reply = families.post("/v1/systemone", body).json()
        assert reply["model"] == name
        answers.append(reply["answers"]["q"]["probabilities"]["lamp"])
    assert len(set(answers)) == 3
