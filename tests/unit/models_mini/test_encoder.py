"""The encoder: a text's vector, and refusal of what is no such model."""

import numpy as np
import pytest

from systone.errors import ConfigError
from systone.models.mini.encoder import WIDTH, Encoder, dots, thread_count
from systone.models.mini.files import find_files
from systone.models.mini.pieces import windows_of


@pytest.fixture(scope="module")
def encoder(pieces):
    return Encoder(find_files().model, cls=pieces.cls, sep=pieces.sep, threads=1)


def test_vectors_have_length_one_and_differ_by_meaning(encoder, pieces):
    cat, kitten, tax = (
        encoder.vector(windows_of(pieces.read(text)))
        for text in ("A cat sleeps.", "A kitten is asleep.", "The tax rate was raised.")
    )
    assert np.linalg.norm(cat) == pytest.approx(1)
    near, far = dots(np.stack([kitten, tax]), cat)
    assert near > 0.5 > far


def test_a_text_of_many_windows_has_the_mean_direction(encoder, pieces):
    windows = windows_of(pieces.read("The lamp is on. " * 120))
    assert len(windows) > 1
    together = encoder.vector(windows)
    parts = np.sum([encoder.vector([w]) for w in windows], axis=0)
    assert together == pytest.approx(parts / np.linalg.norm(parts))


def test_no_text_is_similar_to_nothing(encoder):
    assert not encoder.vector([]).any()
    assert encoder.vector([]).shape == (WIDTH,)


def test_another_file_is_a_config_error(pieces):
    with pytest.raises(ConfigError, match="can't load the model"):
        Encoder(b"no model", cls=pieces.cls, sep=pieces.sep, threads=1)


def test_threads_stay_within_the_processors():
    assert 1 <= thread_count() <= 4
