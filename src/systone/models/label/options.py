"""What the operator chooses for a label read-out, and the settings file beside a model.

Owns the file's grammar (`decision.json`): every key optional, an unknown one refused. Knows no
prompts and no tokenizer.

    {"preset": "onejev", "mode": "label", "orders": "none", "calibrated": true,
     "temperature": {"choice": 1.4, "choice:2": 1.1, "choice:3-5": 1.2, "choice:27+": 2.0}}
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from systone.errors import ConfigError
from systone.models.label.presets import PRESETS
from systone.models.label.settings_file import read_object
from systone.protocol.types import Kind

__all__ = ["FILE_NAME", "Band", "LabelOptions", "Mode", "Orders", "Temperatures", "read_options"]

FILE_NAME = "decision.json"

# "label": logits of label tokens; "statement": how much more likely the state makes a statement.
Mode: TypeAlias = Literal["label", "statement"]
# "reverse": forward and backward, twice the rows; "rotate": every rotation, n times the rows.
Orders: TypeAlias = Literal["none", "reverse", "rotate"]
# "own": systone's stack (Qwen3.5 family); "auto": that where the checkpoint allows it.
Backend: TypeAlias = Literal["auto", "own", "transformers"]

_KEYS = frozenset({"preset", "mode", "orders", "calibrated", "temperature"})
_BAND = re.compile(r"(choice|noul|score)(?::(\d+)(?:(\+)|-(\d+))?)?")


@dataclass(frozen=True, slots=True)
class Band:
    """Questions of one kind with `first`..`last` options (None: no end)."""

    kind: Kind
    first: int
    last: int | None
    temperature: float

    def holds(self, kind: Kind, options: int) -> bool:
        inside = self.first <= options and (self.last is None or options <= self.last)
        return kind == self.kind and inside

    @property
    def width(self) -> float:
        return math.inf if self.last is None else self.last - self.first


@dataclass(frozen=True, slots=True)
class Temperatures:
    """One temperature a (kind, option-count band); 1 where none is given."""

    bands: tuple[Band, ...] = ()

    def of(self, kind: Kind, options: int) -> float:
        """That of the narrowest band that holds the question; of equals the higher one."""
        held = [band for band in self.bands if band.holds(kind, options)]
        if not held:
            return 1.0
        return min(held, key=lambda band: (band.width, -band.first)).temperature


@dataclass(frozen=True, slots=True)
class LabelOptions:
    """Raises ConfigError for a value that doesn't exist. `calibrated` is the operator's word that
    the temperatures were fitted."""

    preset: str = "letters"
    mode: Mode = "label"
    orders: Orders = "none"
    backend: Backend = "auto"
    temperatures: Temperatures = field(default_factory=Temperatures)
    calibrated: bool = False

    def __post_init__(self) -> None:
        _require("preset", self.preset, tuple(PRESETS))
        _require("mode", self.mode, get_args(Mode))
        _require("orders", self.orders, get_args(Orders))
        _require("backend", self.backend, get_args(Backend))
        if self.mode == "statement" and self.orders != "none":
            raise ConfigError(f"orders {self.orders}: statements have no order to average over")


def read_options(
    directory: Path,
    *,
    file: Path | None = None,
    preset: str | None = None,
    mode: Mode | None = None,
    orders: Orders | None = None,
    backend: Backend | None = None,
) -> LabelOptions:
    """The options of a model: what is given here, else what the settings file says, else the
    defaults. `file` is the operator's; without it `decision.json` in `directory` is read if it is
    there. Raises ConfigError."""
    path = file if file is not None else directory / FILE_NAME
    found = _parsed(path) if file is not None or path.exists() else {}
    given = {"preset": preset, "mode": mode, "orders": orders, "backend": backend}
    return replace(
        LabelOptions(), **(found | {name: v for name, v in given.items() if v is not None})
    )


def _parsed(path: Path) -> dict[str, Any]:
    value = read_object(path)
    for key in value:
        if key not in _KEYS:
            raise ConfigError(f"{path}: unknown key {key!r}; there are {', '.join(sorted(_KEYS))}")
    found: dict[str, Any] = {k: value[k] for k in ("preset", "mode", "orders") if k in value}
    for key, text in found.items():
        if not isinstance(text, str):
            raise ConfigError(f"{path}: {key} must be a string")
    if "calibrated" in value:
        if not isinstance(value["calibrated"], bool):
            raise ConfigError(f"{path}: calibrated must be true or false")
        found["calibrated"] = value["calibrated"]
    if "temperature" in value:
        found["temperatures"] = _temperatures(path, value["temperature"])
    return found


def _temperatures(path: Path, value: object) -> Temperatures:
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: temperature must be an object")
    bands = []
    for key, number in value.items():
        match = _BAND.fullmatch(key)
        if match is None:
            raise ConfigError(
                f"{path}: temperature key {key!r} is not a kind (choice, noul, score), alone or "
                "with a number of options, as choice:4, choice:3-5 or choice:27+"
            )
        kind, first, more, last = match.groups()
        low = int(first) if first else 0
        high = None if more or not first else int(last or first)
        if high is not None and high < low:
            raise ConfigError(f"{path}: temperature key {key!r} is an empty band")
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ConfigError(f"{path}: temperature {key}: {number!r} is not a number")
        if not (math.isfinite(number) and number > 0):
            raise ConfigError(f"{path}: temperature {key} must be positive and finite")
        bands.append(Band(cast(Kind, kind), low, high, float(number)))
    return Temperatures(tuple(bands))


def _require(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"{name} {value!r} is unknown; there are {', '.join(known)}")
