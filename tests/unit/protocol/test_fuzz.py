"""Arbitrary JSON in any place: a request or a RequestError, and always an error that renders."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systone.errors import RequestError
from systone.protocol import decisions, errors, systemone
from systone.protocol.types import Dialect

KEYS = """state model questions input type instructions criteria assets noul choice score predicate
choices levels value label description name true false input_text text input_json data input_image
image_url role user content function_call function_call_output call_id output arguments data_base64
part q 0 images"""
WORDS = st.sampled_from(KEYS.split()) | st.text(max_size=3)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
SYSTEM_ONE = st.fixed_dictionaries(
    {"state": JSON, "questions": st.dictionaries(WORDS, JSON, max_size=3) | JSON},
    optional={"model": JSON, "assets": JSON, "audio": JSON},
)
PART = st.fixed_dictionaries(
    {"type": st.sampled_from(["input_text", "input_json", "input_image", "refusal"]) | JSON},
    optional={"text": JSON, "data": JSON, "image_url": JSON, "file_id": JSON},
)
ITEM = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["message", "function_call", "custom_tool_call_output"]) | JSON,
        "role": st.sampled_from(["user", "system", "assistant"]) | JSON,
        "content": st.lists(PART | JSON, max_size=2) | JSON,
        "output": st.lists(PART, max_size=2) | JSON,
        "call_id": WORDS,
    },
)
ASKED = st.fixed_dictionaries(
    {"type": st.sampled_from(["predicate", "choice", "score"]) | JSON},
    optional={
        "name": JSON,
        "instructions": st.lists(PART, max_size=2) | JSON,
        "choices": st.lists(st.dictionaries(WORDS, JSON, max_size=2) | JSON, max_size=3),
        "levels": st.lists(st.dictionaries(WORDS, JSON, max_size=2) | JSON, max_size=3),
    },
)
OPENAI = st.fixed_dictionaries(
    {"input": st.lists(ITEM, max_size=2) | JSON, "questions": st.lists(ASKED, max_size=2) | JSON},
    optional={"model": JSON, "state": JSON},
)
BODIES = st.one_of(SYSTEM_ONE, OPENAI, JSON)
DIALECTS: list[Dialect] = ["default", "jev-exact", "open-jev"]


def check_renders(error: RequestError, dialect: Dialect) -> None:
    for form in ("systemone", "openai"):
        reply = errors.render(error, dialect=dialect, form=form)  # type: ignore[arg-type]
        assert 400 <= reply.status < 500
        assert json.loads(reply.body)


@given(BODIES, st.sampled_from(DIALECTS), st.booleans())
@settings(max_examples=300)
def test_any_json_is_a_request_or_a_request_error(
    body: Any, dialect: Dialect, strict: bool
) -> None:
    data = json.dumps(body).encode()
    for read in (systemone.parse, decisions.parse):
        try:
            read(data, dialect=dialect, strict=strict, parts={"q": b"x"})
        except RequestError as error:
            check_renders(error, dialect)
    assert decisions.form_of(data) in ("openai", "systemone")


@given(st.binary(max_size=60))
def test_any_bytes_are_a_request_error(data: bytes) -> None:
    for read in (systemone.parse, decisions.parse):
        with pytest.raises(RequestError):
            read(data, dialect="default")
