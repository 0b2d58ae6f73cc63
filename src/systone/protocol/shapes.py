"""The shapes of a System One body as pydantic models (contract sections 1.1 to 1.4).

A check only: a request is built from the body itself, so that values and key order stay as sent.
Fields no model names are ignored here; a strict reading refuses them elsewhere. Counts are looked
at before entries, so that a body beyond a limit is never walked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails

from systone.errors import Fault
from systone.protocol.faults import Loc, missing, not_a_dict, shown, wrong_count
from systone.protocol.rules import WireRules

__all__ = ["ASSET", "KINDS", "MAX_ASSETS", "SIDES", "body_shape", "check", "question_shape"]

KINDS = ("noul", "choice", "score")
SIDES = ("true", "false")
# Far more images than any model reads; bounds the search for placeholders in the texts.
MAX_ASSETS = 64


def check(shape: TypeAdapter[Any], value: Any, loc: Loc, rules: WireRules) -> list[Fault]:
    """Every fault of `value`, which stands at `loc`, against one of the shapes below."""
    try:
        shape.validate_python(value, context=(rules, loc))
    except ValidationError as error:
        return [_fault(found, loc) for found in error.errors(include_url=False)]
    return []


_Info: TypeAlias = ValidationInfo[tuple[WireRules, Loc]]


class _FaultError(ValueError):
    """A ready fault, but for its place, on its way out of a validator."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault


def _fault(found: ErrorDetails, loc: Loc) -> Fault:
    """One of pydantic's faults; what it echoes of the input is bounded."""
    loc, kind, msg, ctx = (*loc, *found["loc"]), found["type"], found["msg"], found.get("ctx", {})
    if isinstance(refusal := ctx.get("error"), _FaultError):
        return replace(refusal.fault, loc=loc)
    ctx = {name: shown(value) for name, value in ctx.items()}
    if kind == "model_type":  # whose message would name a class of ours
        return not_a_dict(loc, found["input"])
    if kind == "missing":
        return missing(loc)
    if kind == "union_tag_invalid":
        msg = msg.replace(found["ctx"]["tag"], ctx["tag"])
    elif kind == "union_tag_not_found":
        msg += f"; expected one of {', '.join(map(repr, KINDS))}"
    return Fault(loc, kind, msg, shown(found["input"]), ctx)


def _counted(
    limit: str, kind: type[dict[str, Any]] | type[list[Any]], many: str, none: str = ""
) -> BeforeValidator:
    """Refuses more entries than the named wire limit, and none, in the hosted API's words."""

    def count(entries: Any, info: _Info) -> Any:
        if isinstance(entries, kind):
            rules, loc = info.context
            maximum = getattr(rules.limits, limit)
            if none and not entries:
                msg = none.format(shown(loc[1]))
                raise _FaultError(wrong_count((), entries, minimum=1, msg=msg, exact="sentence"))
            if maximum is not None and len(entries) > maximum:
                fault = wrong_count(
                    (), entries, maximum=maximum, msg=many.format(maximum), exact="sentence"
                )
                raise _FaultError(fault)
        return entries

    return BeforeValidator(count)


def _some_side(criteria: Any, info: _Info) -> Any:
    """Keys beside "true" and "false" are ignored, as on the hosted API, except where they are all
    there is: such a Noul would silently lose its descriptions, so only `jev-exact` lets it pass.
    The open-jev dialect hands them on, because its own contract refuses them."""
    rules = info.context[0]
    hushed = rules.strict or rules.dialect != "default"
    if hushed or type(criteria) is not dict or not criteria or criteria.keys() & {*SIDES}:
        return criteria
    msg = 'Noul criteria describe the sides "true" and "false"; neither is given'
    raise _FaultError(Fault((), "value_error", msg, shown(", ".join(criteria))))


_Text: TypeAlias = Annotated[str | dict[str, Any] | list[Any], Field(union_mode="left_to_right")]


class _Question(BaseModel):
    instructions: _Text | None = None


class _Sides(BaseModel):
    true: _Text | None = None
    false: _Text | None = None


class _Noul(_Question):
    type: Literal["noul"]
    criteria: Annotated[_Sides | None, BeforeValidator(_some_side)] = None


class _Choice(_Question):
    type: Literal["choice"]
    criteria: Annotated[
        dict[str, _Text | None],
        _counted(
            "max_options",
            dict,
            "Too many choices. Must have at most {} choices.",
            "Choice question must have at least one choice: {}",
        ),
    ]


class _Score(_Question):
    type: Literal["score"]
    criteria: Annotated[
        list[_Text],
        Field(min_length=1),
        _counted("max_levels", list, "Too many score levels. Must have at most {} levels."),
    ]


class _Asset(BaseModel):
    type: Literal["image"] | None = None
    format: Literal["png", "jpg", "jpeg"] | None = None
    part: str | None = None
    data_base64: str | None = None


class _Body(BaseModel):
    model: str | None = None
    state: _Text
    questions: Annotated[
        dict[str, Any],
        Field(min_length=1),
        _counted("max_questions", dict, "Too many questions. Must have at most {} questions."),
    ]
    assets: Annotated[dict[str, Any], Field(min_length=1, max_length=MAX_ASSETS)] | None = None


class _AnyNoul(BaseModel):
    type: Literal["noul"]
    criteria: dict[str, Any] | None = None


class _AnyChoice(BaseModel):
    type: Literal["choice"]
    criteria: Annotated[
        dict[str, Any],
        Field(min_length=1),
        _counted("max_options", dict, "Too many choices. Must have at most {} choices."),
    ]


class _AnyScore(BaseModel):
    type: Literal["score"]
    criteria: Annotated[
        list[Any],
        Field(min_length=1),
        _counted("max_levels", list, "Too many score levels. Must have at most {} levels."),
    ]


class _AnyBody(_Body):
    state: Any


ASSET = TypeAdapter(_Asset)
_BODY: TypeAdapter[Any] = TypeAdapter(_Body)
_ANY_BODY: TypeAdapter[Any] = TypeAdapter(_AnyBody)
_QUESTION: TypeAdapter[Any] = TypeAdapter(
    Annotated[_Noul | _Choice | _Score, Field(discriminator="type")]
)
_ANY_QUESTION: TypeAdapter[Any] = TypeAdapter(
    Annotated[_AnyNoul | _AnyChoice | _AnyScore, Field(discriminator="type")]
)


def body_shape(rules: WireRules) -> TypeAdapter[Any]:
    """The envelope; in the Kev dialect a text slot holds any JSON value."""
    return _ANY_BODY if rules.dialect == "kev" else _BODY


def question_shape(rules: WireRules) -> TypeAdapter[Any]:
    """One question, as `body_shape`."""
    return _ANY_QUESTION if rules.dialect == "kev" else _QUESTION
