"""Questions that come again: only the state is tokenised, and no id differs."""

from __future__ import annotations

from systone.models.open_jev.checks import read_request
from systone.models.open_jev.rows import RowMaker
from systone.protocol.types import Choice, Noul, Request

QUESTIONS = {
    "c": Choice("Which desk?", {"sales": "New orders.", "legal": None}),
    "n": Noul("Is it urgent?"),
}


class Counting:
    """A tokenizer that remembers what it was asked."""

    def __init__(self, inner) -> None:
        self.inner = inner
        self.asked: list[list[str]] = []

    def ids(self, texts):
        self.asked.append(list(texts))
        return self.inner.ids(texts)


def ids(rows):
    return [[segment.tokens.tolist() for segment in row.path] for row in rows]


def test_a_question_that_comes_again_is_not_tokenised_again(tokenizer) -> None:
    counting = Counting(tokenizer)
    maker = RowMaker(counting)
    first = read_request(Request("The lamp broke.", QUESTIONS), strict=False)
    second = read_request(Request("The kettle leaks.", QUESTIONS), strict=False)
    cold, other, warm = maker.rows(first), maker.rows(second), maker.rows(first)
    assert ids(warm) == ids(cold)
    assert ids(other) == ids(RowMaker(tokenizer).rows(second))
    _fixed, everything, one, again = counting.asked
    assert len(everything) > 1
    assert len(one) == len(again) == 1
    assert "kettle" in one[0]


def test_a_state_equal_to_a_kept_piece_is_read_right(tokenizer) -> None:
    maker = RowMaker(tokenizer)
    maker.rows(read_request(Request("x", QUESTIONS), strict=False))
    text = read_request(Request(" sales: New orders.\n", QUESTIONS), strict=False)
    assert ids(maker.rows(text)) == ids(RowMaker(tokenizer).rows(text))
