"""A body has the faults that the published schema finds, at the same `loc`, and no others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systone.errors import RequestError
from systone.protocol import systemone
from tests.unit.protocol.oracle import schema_faults

JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.just(1.5) | st.sampled_from(["", "a"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "true", "type", ""]), inner, max_size=2)
    ),
    max_leaves=4,
)
QUESTION = JUNK | st.fixed_dictionaries(
    {"type": st.sampled_from(["noul", "choice", "score", "box", "Noul"]) | JUNK},
    optional={
        "instructions": JUNK,
        "criteria": JUNK
        | st.lists(JUNK, max_size=4)
        | st.dictionaries(st.sampled_from(["true", "false", "x"]), JUNK, max_size=3),
        "extra": JUNK,
    },
)
BODY = JUNK | st.fixed_dictionaries(
    {},
    optional={
        "model": JUNK,
        "state": JUNK,
        "questions": JUNK | st.dictionaries(st.sampled_from(["q", "r", " "]), QUESTION, max_size=3),
        "extra": JUNK,
    },
)


def our_faults(body: Any) -> list[tuple[tuple[str | int, ...], str]]:
    """(loc, type) of our schema faults: those the hosted API words as sentences are left out."""
    try:
        systemone.parse(json.dumps(body).encode(), dialect="jev-exact")
    except RequestError as error:
        return sorted(((f.loc, f.type) for f in error.faults if f.exact is None), key=repr)
    return []


@given(BODY)
def test_same_faults_at_the_same_places_as_pydantic(body: Any) -> None:
    assert our_faults(body) == schema_faults(body)


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        None,
        {"state": 3, "questions": {}, "model": 3},
        {"state": None, "questions": None},
        {"state": "", "questions": {"a": 1, "b": {}, "c": {"type": None}, "d": {"type": []}}},
        {"state": "", "questions": {"a": {"type": "score", "criteria": [None, 3, "x", [], {}]}}},
        {"state": "", "questions": {"a": {"type": "choice", "criteria": ["left"]}}},
        {"state": "", "questions": {"a": {"type": "score", "criteria": {"0": "quiet"}}}},
        {"state": "", "questions": {"a": {"type": "noul", "criteria": 3, "instructions": 4}}},
    ],
)
def test_the_contract_s_own_examples_match(body: Any) -> None:
    assert our_faults(body) == schema_faults(body) != []


@pytest.mark.parametrize(
    "asset",
    [1, {"type": "video"}, {"format": "gif"}, {"part": 3}, {"type": 5, "format": [], "part": {}}],
)
def test_assets_match_too(asset: Any) -> None:
    body = {"state": "", "questions": {"q": {"type": "choice", "criteria": {"a": None}}}}
    body["assets"] = {"A": asset}
    ours = [fault for fault in our_faults(body) if fault[1] != "missing"]
    assert ours == schema_faults(body) != []
