import pytest

from systone.protocol.size import text_size
from systone.protocol.types import Asset, Choice, Noul, Request, Score


def size(state, most=1000, **questions) -> int:
    return text_size(Request(state, questions), most)


def test_every_text_of_a_request_counts() -> None:
    assert size("abc") == 3
    assert size("abc", q=Noul("de")) >= 5
    few = size("abc", q=Choice("de", {"f": None}))
    assert size("abc", q=Choice("de", {"f": "x" * 50})) == few + 49  # None counts as one
    assert size("abc", q=Score("de", ("x" * 50, "y"))) >= 3 + 2 + 51
    assert size({"key": ["x" * 50, {"n": 1}]}) >= 3 + 50 + 1


def test_a_character_outside_of_ascii_counts_as_three() -> None:
    assert size("abü") == 9


def test_counting_ends_past_the_most() -> None:
    assert size("x" * 50, most=10) > 10
    assert size(["x"] * 10**6, most=10) > 10
    assert 10 < size([["x" * 8] for _ in range(1000)], most=1000) < 1100


@pytest.mark.parametrize("most", [0, 10, 10**6])
def test_an_image_is_past_any_bound(most: int) -> None:
    request = Request("", {}, assets={"a": Asset(b"", "png")})
    assert text_size(request, most) > most
