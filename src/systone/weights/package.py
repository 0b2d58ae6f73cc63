"""A decision package on disk: `checkpoint/` with adapter, head, temperature and model.json.

Owns reading and checking those files against the family they belong to; knows no base weights and
no hashes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from systone.errors import ConfigError
from systone.nn.config import TextConfig
from systone.weights.checkpoint import read_json
from systone.weights.families import Family, by_base
from systone.weights.head_file import ScalarHead, read_scalar_head
from systone.weights.lora import Adapter, read_adapter

__all__ = ["FILES", "PackageInfo", "read_info", "read_parts", "read_temperature"]

FILES = (
    "head.pt",
    "model.json",
    "temperature.json",
    "adapter/adapter_config.json",
    "adapter/adapter_model.safetensors",
)


@dataclass(frozen=True, slots=True)
class PackageInfo:
    """What model.json and temperature.json say. `checkpoint`: the directory the files are in."""

    checkpoint: Path
    family: Family
    base_revision: str
    max_length: int
    temperature: float


def read_info(checkpoint: Path) -> PackageInfo:
    """Raises ConfigError naming the file and field that can't be right."""
    path = checkpoint / "model.json"
    model = read_json(path)
    family = by_base(str(model.get("model_id")), str(path))
    for field, expected in (("method", family.method), ("lora_rank", family.rank)):
        if model.get(field) != expected:
            raise ConfigError(f"{path}: {field} is {model.get(field)!r}, not {expected!r}")
    revision, max_length = model.get("revision"), model.get("max_length")
    if not isinstance(revision, str) or not revision:
        raise ConfigError(f"{path}: revision is {revision!r}, not a commit")
    if type(max_length) is not int or max_length < 1:
        raise ConfigError(f"{path}: max_length is {max_length!r}, not a positive integer")
    temperature = read_temperature(checkpoint / "temperature.json", "temperature")
    return PackageInfo(checkpoint, family, revision, max_length, temperature)


def read_parts(info: PackageInfo, config: TextConfig) -> tuple[Adapter, ScalarHead]:
    """The adapter and the head, checked against the backbone they are to be put on."""
    family = info.family
    targets = family.adapted(config)
    adapter = read_adapter(info.checkpoint / "adapter", targets, family.rank, family.alpha)
    return adapter, read_scalar_head(info.checkpoint / "head.pt", config.hidden_size)


def read_temperature(path: Path, field: str) -> float:
    """A finite temperature above zero. Raises ConfigError."""
    value: Any = read_json(path).get(field)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{path}: {field} is {value!r}, not a number")
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{path}: {field} is {value}, not a finite number above zero")
    return float(value)
