"""Checks that every read-out of a language model makes before it spends tokens."""

from __future__ import annotations

from collections.abc import Sequence

from systone.errors import RequestError
from systone.models.label.card import MAX_LEVELS
from systone.protocol.types import Request, Score

__all__ = ["check_lengths", "check_request"]


def check_request(request: Request) -> None:
    """Raises RequestError (422) for images and for more levels than the card allows."""
    if request.assets:
        raise RequestError.at(("assets",), "this model reads text only; images are not accepted")
    for name, question in request.questions.items():
        if isinstance(question, Score) and len(question.criteria) > MAX_LEVELS:
            raise RequestError.at(
                ("questions", name, "score", "criteria"),
                f"question {name}: {len(question.criteria)} levels, at most {MAX_LEVELS} allowed",
                type="too_long",
                limit=MAX_LEVELS,
            )


def check_lengths(
    request: Request, lengths: Sequence[int], questions: Sequence[int], limit: int
) -> None:
    """Raises RequestError (`max_tokens_exceeded`) for the first row longer than `limit`.

    `questions` has the index of each row's question. Nothing is truncated."""
    for length, index in zip(lengths, questions, strict=True):
        if length > limit:
            name = list(request.questions)[index]
            raise RequestError.at(
                ("questions", name),
                f"question {name}: its prompt has {length} tokens, the limit is {limit}; nothing "
                "is truncated",
                type="max_tokens_exceeded",
                code="max_tokens_exceeded",
                exact="max_tokens_exceeded",
                tokens=length,
                limit=limit,
            )
