"""A Kev package's `head.pt`: one pickled dict of facts, with the pointer head's state dict in it.

Owns its fields, their defaults and what a served model may not have. Source: the Kev contract,
section 1. The file is read without running anything it may carry.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from systone.errors import ConfigError
from systone.weights.families import Family, by_base
from systone.weights.head_file import PointerHead, pointer_head, read_pickle

__all__ = ["KevFields", "read_kev_fields", "read_kev_head"]

_WEIGHTS_DTYPES = ("fp32", "bf16")


@dataclass(frozen=True, slots=True)
class KevFields:
    """What prompts, answers and proofs need of the dict."""

    family: Family
    base_revision: str
    temperature: float


def read_kev_fields(path: Path) -> KevFields:
    """Raises ConfigError naming the file and the field that can't be served."""
    held = _read(path)
    family = by_base(str(held.get("base")), str(path), "kev")
    for field, wanted in (("lora", family.rank), ("head_dim", family.head_dim)):
        found = held.get(field, {"lora": 0, "head_dim": 256}[field])
        if found != wanted:
            raise ConfigError(f"{path}: {field} is {found!r}, not {wanted}")
    for field in ("option_isolation", "special_embeddings"):
        if held.get(field, False):
            raise ConfigError(f"{path}: {field} is set, which this backbone can't be served with")
    if (dtype := held.get("weights_dtype", "fp32")) not in _WEIGHTS_DTYPES:
        raise ConfigError(f"{path}: weights_dtype is {dtype!r}, neither fp32 nor bf16")
    revision = held.get("base_revision") or family.pins.base_revision
    if not isinstance(revision, str):
        raise ConfigError(f"{path}: base_revision is {revision!r}, not a commit")
    return KevFields(family, revision, _temperature(path, held.get("temperature", 1.0)))


def read_kev_head(path: Path, family: Family, hidden: int) -> PointerHead:
    """Raises ConfigError naming the tensor that doesn't fit a backbone of that width."""
    return pointer_head(path, _read(path).get("head"), hidden, family.head_dim)


def _read(path: Path) -> Mapping[str, Any]:
    held = read_pickle(path)
    if not isinstance(held, Mapping) or "head" not in held:
        raise ConfigError(f"{path}: not a dict with a head in it")
    return held


def _temperature(path: Path, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{path}: temperature is {value!r}, not a number")
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{path}: temperature is {value}, not a finite number above zero")
    return float(value)
