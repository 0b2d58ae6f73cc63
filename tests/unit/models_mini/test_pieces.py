"""Cutting texts: nothing lost, nothing too long, control tokens never from user text."""

from hypothesis import given, settings
from hypothesis import strategies as st

from systone.models.mini.constants import MAX_SENTENCES, WINDOW_OVERLAP, WINDOW_PIECES
from systone.models.mini.pieces import Pieces, sentences_of, windows_of

ROOM = WINDOW_PIECES - 2
lengths = st.lists(st.integers(1, 600), min_size=1, max_size=12)


def made_of(sizes):
    starts, total = [], 0
    for size in sizes:
        starts.append(total)
        total += size
    return Pieces(tuple(range(total)), tuple(starts), blank=False)


@given(lengths)
def test_windows_hold_every_piece_in_order_and_fit(sizes):
    text = made_of(sizes)
    windows = windows_of(text)
    assert all(0 < len(w) <= ROOM for w in windows)
    seen = [i for w in windows for i in w]
    assert sorted(set(seen)) == list(range(len(text)))
    assert [w[0] for w in windows] == sorted(w[0] for w in windows)
    assert all(list(w) == list(range(w[0], w[-1] + 1)) for w in windows)


@given(lengths)
def test_a_sentence_that_fits_is_never_cut(sizes):
    text = made_of(sizes)
    for start, size in zip(text.starts, sizes, strict=True):
        if size <= ROOM:
            whole = set(range(start, start + size))
            assert any(whole <= set(w) for w in windows_of(text))


def test_a_sentence_longer_than_a_window_is_cut_with_overlap():
    first, second, *_ = windows_of(made_of([600]))
    assert len(first) == ROOM
    assert set(first) & set(second) == set(range(ROOM - WINDOW_OVERLAP, ROOM))


@given(lengths)
def test_sentences_hold_every_piece(sizes):
    found = sentences_of(made_of(sizes))
    if len(sizes) == 1:
        assert found == ()
    else:
        assert {i for s in found for i in s} == set(range(sum(sizes)))
        assert all(len(s) <= ROOM for s in found)


@settings(max_examples=10)
@given(st.integers(1, 12))
def test_many_sentences_are_joined_and_the_last_stays_alone(size):
    found = sentences_of(made_of([size] * (MAX_SENTENCES + 100)))
    assert len(found) <= MAX_SENTENCES + 1
    assert len(found[-1]) == size
    assert {i for s in found for i in s} == set(range(size * (MAX_SENTENCES + 100)))


def test_sentences_begin_after_closing_marks_and_line_breaks(pieces):
    text = pieces.read('He left. "Why?" she asked!\nNo 3.5 here 終わり。次')
    words = pieces.read("He left.").ids
    assert text.starts[0] == 0
    assert text.ids[: text.starts[1]] == words
    assert len(text.starts) == 5


def test_blank_texts_are_told_apart(pieces):
    for text in ("", " \n\t", "{}", "[]", "?!", " " * 1000):
        assert pieces.read(text).blank
    assert not pieces.read("7").blank
    assert not pieces.read("ä").blank


def test_control_tokens_in_user_text_stay_text(pieces):
    for marker in ("[SEP]", "[CLS]", "[PAD]", "[MASK]", "[UNK]"):
        ids = pieces.read(f"ok {marker} {marker.lower()} end").ids
        assert not {0, 101, 102, 103} & set(ids)
        assert pieces.read(marker).ids == pieces.read(" ".join(marker)).ids or 100 not in ids


def test_no_limit_is_applied_by_the_tokenizer(pieces):
    assert len(pieces.read("lamp " * 50_000)) == 50_000
