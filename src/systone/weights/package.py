"""A decision package on disk, in one of two layouts: Open-Jev's `checkpoint/` with adapter, head,
temperature and model.json, or Kev's flat directory (`kev_package.py` reads its `head.pt`).

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
from systone.weights.families import Family, Layout, by_base
from systone.weights.head_file import Head, read_scalar_head
from systone.weights.kev_package import read_kev_fields, read_kev_head
from systone.weights.lora import Adapter, read_adapter

__all__ = [
    "FILES",
    "KEV_FILES",
    "PackageInfo",
    "layout_of",
    "read_info",
    "read_parts",
    "read_temperature",
]

FILES = (
    "head.pt",
    "model.json",
    "temperature.json",
    "adapter/adapter_config.json",
    "adapter/adapter_model.safetensors",
)
KEV_FILES = ("head.pt", "adapter_config.json", "adapter_model.safetensors")


@dataclass(frozen=True, slots=True)
class PackageInfo:
    """What a package's small files say. `checkpoint`: the directory the files are in."""

    checkpoint: Path
    family: Family
    base_revision: str
    max_length: int
    temperature: float

    @property
    def adapter(self) -> Path:
        """The directory of the LoRA's two files."""
        flat = self.family.layout == "kev"
        return self.checkpoint if flat else self.checkpoint / "adapter"


def layout_of(directory: Path) -> Layout | None:
    """Which layout's files lie directly in `directory`; None: neither's."""
    if (directory / "model.json").is_file():
        return "open-jev"
    if all((directory / name).is_file() for name in KEV_FILES):
        return "kev"
    return None


def read_info(checkpoint: Path) -> PackageInfo:
    """Raises ConfigError naming the file and field that can't be right."""
    if layout_of(checkpoint) == "kev":
        fields = read_kev_fields(checkpoint / "head.pt")
        return PackageInfo(
            checkpoint,
            fields.family,
            fields.base_revision,
            fields.family.max_length,
            fields.temperature,
        )
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


def read_parts(info: PackageInfo, config: TextConfig) -> tuple[Adapter, Head]:
    """The adapter and the head, checked against the backbone they are to be put on."""
    family = info.family
    targets = family.adapted(config)
    adapter = read_adapter(info.adapter, targets, family.rank, family.alpha)
    path = info.checkpoint / "head.pt"
    if family.layout == "kev":
        return adapter, read_kev_head(path, family, config.hidden_size)
    return adapter, read_scalar_head(path, config.hidden_size)


def read_temperature(path: Path, field: str) -> float:
    """A finite temperature above zero. Raises ConfigError."""
    value: Any = read_json(path).get(field)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{path}: {field} is {value!r}, not a number")
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{path}: {field} is {value}, not a finite number above zero")
    return float(value)
