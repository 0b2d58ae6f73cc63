import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from systone import Engine, Noul
from systone.config import ModelSettings
from systone.errors import ConfigError
from systone.models import registry, synthetic
from systone.models.qwen_tokens import load_tokenizer
from systone.protocol import models
from systone.server.status import health_body

SOURCE = "synth:open-jev-9b:tiny"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine((SOURCE,)) as running:
        yield running


@pytest.mark.parametrize(
    "source",
    ["synth:", "synth:open-jev-9b:small", "synth:../x", "synth:open-jev-9b:tiny:-1", "synth:A"],
)
def test_a_source_of_another_form_is_refused_before_anything_loads(source: str) -> None:
    with pytest.raises(ConfigError, match=r"is not synth:NAME\[:full\|tiny\[:SEED\]\]"):
        registry.check(source)


@pytest.mark.parametrize(
    ("source", "settings", "fault"),
    [
        ("synth:gpt", ModelSettings(), "no model 'gpt' to synthesise"),
        (SOURCE, ModelSettings(base="b"), "takes no --base"),
    ],
)
def test_what_can_not_be_drawn_is_refused(source: str, settings: ModelSettings, fault: str) -> None:
    registry.check(source)
    with pytest.raises(ConfigError, match=fault):
        registry.load(source, settings)


@pytest.mark.slow
def test_everything_that_names_the_model_says_it_is_synthetic(engine: Engine) -> None:
    listed = json.loads(models.render(engine.cards))
    described = {entry["description"] for entry in listed["models"]}
    assert all("Synthetic: random weights, answers mean nothing" in text for text in described)
    assert not any(entry["calibrated"] for entry in listed["data"])
    (shown,) = health_body(engine, "0")["models"]
    assert shown["description"].startswith("Synthetic: random weights, answers mean nothing.")
    assert shown["calibrated"] is False


@pytest.mark.slow
def test_it_answers_to_the_names_of_its_package(engine: Engine) -> None:
    for name in ("open-jev-9b", "Qwen/Qwen3.5-9B", None):
        decision = engine.decide("a state", {"q": Noul("Is it?")}, name)
        assert 0.0 < decision.answers["q"].noul < 1.0  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_seed_changes_the_weights_and_the_revision(engine: Engine) -> None:
    other = registry.load(f"{SOURCE}:7", ModelSettings())
    assert other.adapter.card.revision != engine.cards[0].revision
    assert other.adapter.card.name == engine.cards[0].name


@pytest.mark.slow
def test_the_weights_are_those_of_the_files(engine: Engine, tmp_path: Path) -> None:
    from systone.weights.synth import synthesize

    synthesize("open-jev-9b", "tiny", 0, tmp_path / "files")
    with Engine((str(tmp_path / "files"),)) as stored:
        asked = ("a state of some words", {"q": Noul("Is it?")})
        assert stored.decide(*asked).answers == engine.decide(*asked).answers
        assert stored.cards[0].revision == engine.cards[0].revision


def test_the_tokenizer_is_the_real_one() -> None:
    with synthetic.tokenizer_directory() as directory:
        tokenizer = load_tokenizer(directory)
    assert tokenizer.num_ids == 248_077
    assert list(tokenizer.encode("<|im_start|>user\n")) == [248_045, 846, 198]


@pytest.mark.slow
def test_a_kev_can_be_drawn_too() -> None:
    loaded = registry.load("synth:kev-0.8b:tiny", ModelSettings())
    assert loaded.adapter.card.name == "kev-0.8b"
    assert loaded.adapter.card.description.startswith("Synthetic: ")
