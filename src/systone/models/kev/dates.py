"""Kev's date facts: how far apart the dates of a state lie, told to the model as text.

The optional switch of the reference (`KEV_DATE_FACTS=1`). Source of every rule: the Kev contract,
section 2. It leaves open what becomes of an earlier annotation: here an object's is overwritten,
and any other stands beside the new one.
"""

from __future__ import annotations

import re
from datetime import date
from itertools import combinations

from systone.protocol.types import Json

__all__ = ["date_facts", "with_date_facts"]

KEY = "date_facts"

_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DATE = re.compile(rf"\b(?:{'|'.join(_MONTHS)}) \d{{1,2}}, \d{{4}}\b|\b\d{{4}}-\d{{2}}-\d{{2}}\b")
_LONG = re.compile(r"(\w+) (\d+), (\d+)")


def with_date_facts(state: Json, rendered: str) -> Json:
    """The state as the model reads it: an object with one more key, an array with one more object,
    text with one more paragraph; as it is without two dates. `rendered`: the state as text."""
    facts = date_facts(rendered)
    if facts is None:
        return state
    if isinstance(state, dict):
        return {**state, KEY: facts}
    if isinstance(state, list):
        return [*state, {KEY: facts}]
    return f"{rendered}\n\n{KEY}: {facts}"


def date_facts(text: str) -> str | None:
    """A sentence for each two dates of a text, in order of their first appearance; None where there
    are fewer than two. A spelling counts once, and only if such a day exists."""
    found = {spelling: _day(spelling) for spelling in _DATE.findall(text)}
    days = [(spelling, day) for spelling, day in found.items() if day is not None]
    if len(days) < 2:
        return None
    return " ".join(_apart(*pair) for pair in combinations(days, 2))


def _apart(first: tuple[str, date], second: tuple[str, date]) -> str:
    days = (second[1] - first[1]).days
    if days == 0:
        return f"{second[0]} is the same day as {first[0]}."
    unit = "day" if abs(days) == 1 else "days"
    return f"{second[0]} is {abs(days)} {unit} {'after' if days > 0 else 'before'} {first[0]}."


def _day(spelling: str) -> date | None:
    """The day a match names, None if there is no such day."""
    long = _LONG.fullmatch(spelling)
    if long:
        year, month, day = int(long[3]), _MONTHS.index(long[1]) + 1, int(long[2])
    else:
        year, month, day = (int(part) for part in spelling.split("-"))
    try:
        return date(year, month, day)
    except ValueError:
        return None
