"""Shared by the protocol's tests: bodies, and the faults a refused body has."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from systone.errors import Fault, RequestError
from systone.protocol import systemone


def encode(body: Any) -> bytes:
    return json.dumps(body).encode()


@pytest.fixture
def parse() -> Callable[..., Any]:
    """Parses a body given as a Python value, in the default dialect unless told otherwise."""

    def run(body: Any, **options: Any) -> Any:
        options.setdefault("dialect", "default")
        return systemone.parse(encode(body), **options)

    return run


@pytest.fixture
def faults(parse: Callable[..., Any]) -> Callable[..., tuple[Fault, ...]]:
    """The faults of a body that must be refused with 422."""

    def run(body: Any, **options: Any) -> tuple[Fault, ...]:
        with pytest.raises(RequestError) as caught:
            parse(body, **options)
        assert caught.value.status == 422
        return caught.value.faults

    return run


@pytest.fixture
def ask(parse: Callable[..., Any]) -> Callable[..., Any]:
    """The typed question that one question body under the id `q` becomes."""

    def run(question: Any, **options: Any) -> Any:
        body = {"state": "s", "questions": {"q": question}}
        return parse(body, **options).questions["q"]

    return run


@pytest.fixture
def ask_faults(faults: Callable[..., Any]) -> Callable[..., Any]:
    """The faults of one question body under the id `q`."""

    def run(question: Any, **options: Any) -> Any:
        return faults({"state": "s", "questions": {"q": question}}, **options)

    return run
