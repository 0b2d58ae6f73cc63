"""The messages of the wire as frozen values: requests, questions, answers, decisions.

Owns the vocabulary every other part speaks; knows no JSON text, no HTTP, no model and no torch.
Mappings keep the caller's key order. Values in text slots are never changed after parsing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Any] | dict[str, Any] | None"
# What a text slot holds (state, instructions, descriptions, levels): text, an object or an array.
Text: TypeAlias = "str | list[Any] | dict[str, Any]"
Kind: TypeAlias = Literal["choice", "noul", "score"]
Dialect: TypeAlias = Literal["default", "jev-exact", "open-jev", "kev"]


@dataclass(frozen=True, slots=True)
class Noul:
    """A yes/no question. `criteria` may describe the sides "true" and "false", either or both."""

    instructions: Text | None = None
    criteria: Mapping[str, Text | None] | None = None
    kind: Kind = field(default="noul", init=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several named options; an option's description may be None (read by its name)."""

    instructions: Text | None = None
    criteria: Mapping[str, Text | None] = field(default_factory=dict)
    kind: Kind = field(default="choice", init=False)


@dataclass(frozen=True, slots=True)
class Score:
    """One of several ordered levels, lowest first; the level's number is its index."""

    instructions: Text | None = None
    criteria: Sequence[Text] = ()
    kind: Kind = field(default="score", init=False)


Question: TypeAlias = Noul | Choice | Score


@dataclass(frozen=True, slots=True)
class Asset:
    """An image of the request: its bytes as sent, and the format the bytes themselves declare."""

    data: bytes
    format: Literal["png", "jpeg"]


@dataclass(frozen=True, slots=True)
class Request:
    """One decision request, checked against the wire's rules but not yet against a model's."""

    state: Text
    questions: Mapping[str, Question]
    model: str | None = None
    assets: Mapping[str, Asset] = field(default_factory=dict)
    dialect: Dialect = "default"


@dataclass(frozen=True, slots=True)
class NoulAnswer:
    """`noul`: probability of yes, 0..1."""

    noul: float
    kind: Kind = field(default="noul", init=False)


@dataclass(frozen=True, slots=True)
class ChoiceAnswer:
    """`choice`: the most probable option's name; probabilities by name, in request order."""

    choice: str
    probabilities: Mapping[str, float]
    confidence: float
    kind: Kind = field(default="choice", init=False)


@dataclass(frozen=True, slots=True)
class ScoreAnswer:
    """`score`: expected level index; `legend`: the levels as sent; probabilities by level index."""

    score: float
    legend: Sequence[Text]
    probabilities: Sequence[float]
    confidence: float
    kind: Kind = field(default="score", init=False)


Answer: TypeAlias = NoulAnswer | ChoiceAnswer | ScoreAnswer


@dataclass(frozen=True, slots=True)
class Usage:
    """Billable tokens by the model's own contract; never depends on batching, reuse or policy."""

    input_tokens: int
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """What a model answered: one answer per question id, in request order.

    `metadata` is the model dialect's own object (Open-Jev's `metadata`), sent only in that dialect;
    `extras` is what goes under `x_systone` when the caller opts in (notes, truncation, reuse).
    """

    model: str
    answers: Mapping[str, Answer]
    usage: Usage
    metadata: Mapping[str, Any] = field(default_factory=dict)
    extras: Mapping[str, Any] = field(default_factory=dict)
