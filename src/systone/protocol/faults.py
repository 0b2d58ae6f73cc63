"""Faults in the words and places pydantic uses, and the sentence a list of them makes.

Owns `loc`, `type` and `msg` conventions: one fault per member of a text slot's union. Knows no
request field. What a fault echoes of the input is bounded here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import groupby, islice

from systone.errors import Exact, Fault
from systone.protocol.types import Json

__all__ = [
    "MAX_FAULTS",
    "Loc",
    "listed",
    "missing",
    "not_a_dict",
    "not_a_list",
    "not_a_string",
    "path_of",
    "sentence_of",
    "shown",
    "unknown_fields",
    "wrong_count",
]

Loc = tuple[str | int, ...]

# A request with more faults than this is not read to its end.
MAX_FAULTS = 1000
_MAX_SHOWN = 300
_MAX_MATCHED = 60
# One line of text names at most so many slots; a 422 list names them all.
_MAX_LINES = 100
_UNION = ("str", "dict[str,any]", "list[any]")
# Faults whose message doesn't say which field it is about: pydantic's, and those of /v1/decisions.
_PYDANTIC = (
    "missing",
    "too_short",
    "too_long",
    "literal_error",
    "string_type",
    "dict_type",
    "list_type",
    "union_tag_invalid",
    "union_tag_not_found",
    "model_attributes_type",
    "extra_forbidden",
)
_DECISIONS = (
    "content_type",
    "json_type",
    "value_type",
    "input_type",
    "invalid_part",
    "invalid_item",
    "invalid_role",
    "invalid_question_type",
    "unmatched_call",
    "duplicate_value",
    "unsupported_image",
    "invalid_image",
    "json_too_large",
)
_NAMELESS = frozenset((*_PYDANTIC, *_DECISIONS))


def listed(faults: list[Fault]) -> list[Fault]:
    """The faults to report: all, or the first MAX_FAULTS and a note that there are more."""
    if len(faults) <= MAX_FAULTS:
        return faults
    note = Fault((), "too_many_faults", f"Only the first {MAX_FAULTS} faults are listed")
    return [*faults[:MAX_FAULTS], note]


def shown(value: Json) -> Json:
    """What a fault echoes of a value: itself when small, else a description of it."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_SHOWN else value[:_MAX_SHOWN] + "…"
    if isinstance(value, dict):
        return f"<object of {len(value)} keys>" if value else value
    if isinstance(value, list):
        return f"<array of {len(value)} values>" if value else value
    if isinstance(value, int) and abs(value) >= 10**_MAX_SHOWN:
        return "<integer of many digits>"
    return value


def not_a_string(loc: Loc, value: Json) -> Fault:
    return Fault(loc, "string_type", "Input should be a valid string", shown(value))


def not_a_dict(loc: Loc, value: Json) -> Fault:
    return Fault(loc, "dict_type", "Input should be a valid dictionary", shown(value))


def not_a_list(loc: Loc, value: Json) -> Fault:
    return Fault(loc, "list_type", "Input should be a valid list", shown(value))


def missing(loc: Loc) -> Fault:
    return Fault(loc, "missing", "Field required")


def unknown_fields(
    loc: Loc, fields: Iterable[str], known: Sequence[str], *, exact: Exact | None = None
) -> list[Fault]:
    """A fault, with the known name it resembles, for each field that a strict reading refuses.

    Bounded: looking for near names is slow, and a body may hold a million fields."""
    faults = []
    for field in islice((f for f in fields if f not in known), MAX_FAULTS + 1):
        msg = "Extra inputs are not permitted"
        near = get_close_matches(field, known, 1) if len(field) <= _MAX_MATCHED else []
        if near:
            msg += f"; did you mean `{near[0]}`?"
        faults.append(Fault((*loc, field), "extra_forbidden", msg, exact=exact))
    return faults


def wrong_count(
    loc: Loc,
    value: Sequence[Json] | dict[str, Json],
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    msg: str | None = None,
    exact: Exact | None = None,
) -> Fault:
    """Fewer than `minimum` or more than `maximum` items; `msg` replaces pydantic's wording."""
    field = "Dictionary" if isinstance(value, dict) else "List"
    limit, word = (minimum, "least") if maximum is None else (maximum, "most")
    items = "item" if limit == 1 else "items"
    return Fault(
        loc,
        "too_short" if maximum is None else "too_long",
        msg or f"{field} should have at {word} {limit} {items} after validation, not {len(value)}",
        shown(value if isinstance(value, dict) else list(value)),
        {
            "field_type": field,
            "min_length" if maximum is None else "max_length": limit,
            "actual_length": len(value),
        },
        exact,
    )


def path_of(loc: Loc) -> str:
    """`questions.q.criteria[1]`: a loc without union members, for a human."""
    if loc and loc[-1] in _UNION:
        loc = loc[:-1]
    path = ""
    for part in loc:
        path += f"[{part}]" if isinstance(part, int) else f".{shown(part)}"
    return path.removeprefix(".")


def sentence_of(faults: Iterable[Fault]) -> str:
    """All faults in one line, each slot once, each naming its field."""
    lines = []
    for path, group in groupby(faults, key=lambda f: path_of(f.loc)):
        slot = list(group)
        if slot[0].loc and slot[0].loc[-1] in _UNION:
            lines.append(f"{path}: Input should be a string, an object or an array")
            continue
        for fault in slot:
            line = f"{path}: {fault.msg}" if path and fault.type in _NAMELESS else fault.msg
            if fault.type == "too_long" and fault.exact:
                line += f" ({fault.ctx.get('actual_length')} given)"
            lines.append(line)
    if len(lines) > _MAX_LINES:
        lines[_MAX_LINES:] = [f"and {len(lines) - _MAX_LINES} more"]
    return "; ".join(lines)
