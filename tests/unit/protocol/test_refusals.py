"""The sentences for routes, methods, keys and model names."""

from __future__ import annotations

import pytest

from systone.protocol import refusals


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/v1/systemone", "without /v1"),
        ("/v1/chat/completions", "POST /v1/systemone"),
        ("/v1/responses/", "generates no text"),
        ("/v1/v1/chat/completions", "without /v1"),
        ("/systemone", "Did you mean /v1/systemone?"),
        ("/decisions/", "Did you mean /v1/decisions?"),
        ("/", "GET /v1/models"),
    ],
)
def test_404_helps(path: str, words: str) -> None:
    error = refusals.not_found(path)
    assert error.status == 404
    assert words in str(error)
    assert f"No route {path}." in str(error)


def test_long_names_are_cut() -> None:
    assert len(str(refusals.not_found("/" + "x" * 10_000))) < 500
    assert len(str(refusals.unknown_model("x" * 10_000, ["m"]))) < 500
    assert len(str(refusals.method_not_allowed("M" * 10_000, ["POST"]))) < 200


def test_an_unknown_model_names_the_served_ones() -> None:
    error = refusals.unknown_model("gpt-9", ["systone-mini", "jev-latest"])
    assert str(error) == "Unknown model: gpt-9. This server serves: systone-mini, jev-latest."
    assert (error.status, error.code) == (404, "unknown_model")


def test_a_missing_and_a_wrong_key_differ() -> None:
    assert "No API key" in str(refusals.unauthenticated(missing=True))
    assert "not valid" in str(refusals.unauthenticated(missing=False))
