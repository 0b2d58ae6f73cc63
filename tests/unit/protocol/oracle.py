"""System One requests as plain pydantic models, written from the published schema.

Never imported by the package, whose own shapes carry limits, sentences and bounds beside them:
the `loc`s and types of its faults are compared with what pydantic prints for these.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

Text = str | dict[str, Any] | list[Any]


class Sides(BaseModel):
    true: Text | None = None
    false: Text | None = None


class Noul(BaseModel):
    type: Literal["noul"]
    instructions: Text | None = None
    criteria: Sides | None = None


class Choice(BaseModel):
    type: Literal["choice"]
    instructions: Text | None = None
    criteria: dict[str, Text | None]


class Score(BaseModel):
    type: Literal["score"]
    instructions: Text | None = None
    criteria: Annotated[list[Text], Field(min_length=1)]


Question = Annotated[Noul | Choice | Score, Field(discriminator="type")]


class Image(BaseModel):
    type: Literal["image"] | None = None
    format: Literal["png", "jpg", "jpeg"] | None = None
    data_base64: str | None = None
    part: str | None = None


class Body(BaseModel):
    model: str | None = None
    state: Text
    questions: Annotated[dict[str, Question], Field(min_length=1)]
    assets: Annotated[dict[str, Image], Field(min_length=1)] | None = None


# pydantic names its own classes where we say what is wanted: an object.
_SAME = {"model_type": "dict_type"}


def schema_faults(body: Any) -> list[tuple[tuple[str | int, ...], str]]:
    """(loc, type) of every fault pydantic finds, sorted."""
    try:
        Body.model_validate(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        return sorted(((f["loc"], _SAME.get(f["type"], f["type"])) for f in found), key=repr)
    return []
