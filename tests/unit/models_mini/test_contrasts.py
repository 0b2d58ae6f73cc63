"""Contrasts: stored vectors belong to the texts; readings point the right way."""

import io

import numpy as np
import pytest

from systone.errors import ConfigError
from systone.models.mini.contrasts import Contrasts, fixed_texts, mean_of_largest
from systone.models.mini.encoder import WIDTH, Encoder, dot
from systone.models.mini.files import find_files
from systone.models.mini.pieces import windows_of


@pytest.fixture(scope="module")
def files():
    return find_files()


@pytest.fixture(scope="module")
def encode(files, pieces):
    encoder = Encoder(files.model, cls=pieces.cls, sep=pieces.sep, threads=2)
    return lambda text: encoder.vector(windows_of(pieces.read(text)))


@pytest.fixture(scope="module")
def contrasts(files):
    return Contrasts(files.contrasts, files.vectors)


def test_stored_vectors_are_those_of_the_texts(files, encode):
    texts = fixed_texts(files.contrasts)
    stored = np.load(io.BytesIO(files.vectors))
    assert stored.shape == (len(texts), WIDTH)
    for i in range(0, len(texts), 29):
        assert dot(stored[i].astype(np.float64), encode(texts[i])) == pytest.approx(1, abs=2e-3)


def test_a_missing_vector_is_refused(files):
    buffer = io.BytesIO()
    np.save(buffer, np.load(io.BytesIO(files.vectors))[:-1])
    with pytest.raises(ConfigError, match="differ in number"):
        Contrasts(files.contrasts, buffer.getvalue())


@pytest.mark.parametrize(
    ("key", "shown", "opposite"),
    [
        ("furious and rude", "I am done with you, you useless liars!", "Thank you for your help."),
        ("in a great hurry", "We need it right now, hurry up!", "Any time next month will do."),
        ("how serious is this", "The whole town burned down.", "A tiny dent, hardly visible."),
    ],
)
def test_a_text_that_shows_a_quality_reads_higher(contrasts, encode, key, shown, opposite):
    index, nearness = contrasts.nearest(encode(key))
    assert nearness > 0.3
    readings = [contrasts.reading(index, [encode(text)]) for text in (shown, opposite)]
    assert readings[0] > readings[1]
    assert contrasts.positions(encode(shown))[index] == readings[0]


def test_one_view_is_enough_to_show_a_quality(contrasts, encode):
    index, _ = contrasts.nearest(encode("angry"))
    plain = [encode("The parcel came in May."), encode("It is blue.")]
    angry = encode("I am livid, this is an outrage!")
    assert contrasts.reading(index, [*plain, angry]) > contrasts.reading(index, plain)


def test_mean_of_largest_takes_all_when_there_are_fewer():
    assert mean_of_largest(np.array([1.0, 5.0, 3.0]), 2) == 4.0
    assert mean_of_largest(np.array([1.0, 5.0]), 8) == 3.0
