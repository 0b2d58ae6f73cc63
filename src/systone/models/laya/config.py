"""`rl_agent_config.json`: budgets, temperatures and layout of a Laya-class checkpoint.

Owns the file's fields and their checks; knows no weights. Source: the Laya contract.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from systone.errors import ConfigError
from systone.protocol.types import Kind

__all__ = ["CONFIG_NAME", "KINDS", "LayaConfig", "Temperatures", "band_of", "read_config"]

CONFIG_NAME = "rl_agent_config.json"
KINDS: tuple[Kind, ...] = ("choice", "score", "noul")  # rows of the type embedding
LOWEST, HIGHEST = 0.5, 5.0  # temperatures are held between these
_BANDS = ("2", "3-5", "6-10", "11+")


@dataclass(frozen=True, slots=True)
class Temperatures:
    """By kind, and by kind and number of options where fitted; as the file has them."""

    by_kind: Mapping[str, float]
    by_band: Mapping[str, float]  # "choice:3-5" -> temperature

    def of(self, kind: Kind, options: int) -> float:
        """The temperature answers are read with, held between LOWEST and HIGHEST."""
        return _held(self.by_band.get(f"{kind}:{band_of(options)}", self.by_kind[kind]))

    @property
    def held(self) -> Mapping[str, tuple[float, float]]:
        """Entries outside the bounds: name -> (in the file, served)."""
        entries = {**self.by_kind, **self.by_band}
        return {name: (t, _held(t)) for name, t in entries.items() if t != _held(t)}


@dataclass(frozen=True, slots=True)
class LayaConfig:
    """Lengths are tokens. `encoder`: hub id of the body; `num_actions`: of the act head."""

    encoder: str
    head_layers: int
    max_len: int
    head_max_len: int
    num_actions: int
    temperatures: Temperatures


def read_config(directory: Path) -> LayaConfig:
    """Raises ConfigError naming the field that can't be served."""
    path = directory / CONFIG_NAME
    try:
        fields = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror})") from None
    except ValueError:
        raise ConfigError(f"{path}: not JSON") from None
    if not isinstance(fields, dict):
        raise ConfigError(f"{path}: not a JSON object")
    layout = fields.get("option_layout", "sequential")
    if layout != "sequential":
        raise ConfigError(f"{path}: option_layout {layout!r} is not served, only 'sequential'")
    encoder = fields.get("encoder")
    if not isinstance(encoder, str) or not encoder:
        raise ConfigError(f"{path}: encoder is {encoder!r}, not a model's name")
    costs = fields.get("act_costs", {})
    if not isinstance(costs, dict):
        raise ConfigError(f"{path}: act_costs is {costs!r}, not an object")
    return LayaConfig(
        encoder=encoder,
        head_layers=_count(path, fields, "head_layers", None, 0),
        max_len=_count(path, fields, "max_len", 512, 32),
        head_max_len=_count(path, fields, "head_max_len", 192, 16),
        num_actions=len(costs) + 1,
        temperatures=_temperatures(path, fields),
    )


def band_of(options: int) -> str:
    """The option-count band; one option counts as two."""
    if options <= 2:
        return "2"
    return "3-5" if options <= 5 else "6-10" if options <= 10 else "11+"


def _count(path: Path, fields: Mapping[str, Any], name: str, default: int | None, low: int) -> int:
    value = fields.get(name, default)
    if type(value) is not int or value < low:
        raise ConfigError(f"{path}: {name} is {value!r}, not an integer of at least {low}")
    return value


def _temperatures(path: Path, fields: Mapping[str, Any]) -> Temperatures:
    listed = fields.get("temperature", [1.0] * len(KINDS))
    if not isinstance(listed, list) or len(listed) != len(KINDS):
        raise ConfigError(f"{path}: temperature is {listed!r}, not {len(KINDS)} numbers")
    by_band = fields.get("temperature_by_options", {})
    known = {f"{kind}:{band}" for kind in get_args(Kind) for band in _BANDS}
    if not isinstance(by_band, dict) or not by_band.keys() <= known:
        raise ConfigError(f"{path}: temperature_by_options has keys other than KIND:BAND")
    kinds = dict(zip(KINDS, listed, strict=True))
    return Temperatures(
        {kind: _number(path, f"temperature of {kind}", t) for kind, t in kinds.items()},
        {band: _number(path, f"temperature of {band}", t) for band, t in by_band.items()},
    )


def _number(path: Path, what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{path}: {what} is {value!r}, not a finite number")
    return float(value)


def _held(temperature: float) -> float:
    return min(max(temperature, LOWEST), HIGHEST)
