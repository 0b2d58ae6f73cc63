"""Shape of a ModernBERT body and of the marker head on it, read from the checkpoint's own config.

Owns the check that a body is one this package computes; knows no files and no tensors. Source:
the fields of transformers' `ModernBertConfig` in both of its spellings (one `rope_parameters`
entry per kind of layer, or `global_rope_theta` and `local_rope_theta`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from systone.errors import ConfigError

__all__ = ["EncoderConfig", "MarkerConfig"]

_GLOBAL, _LOCAL = "full_attention", "sliding_attention"
_UNBIASED = ("attention_bias", "mlp_bias", "norm_bias")
_DEFAULT_THETA = {_GLOBAL: 160_000.0, _LOCAL: 10_000.0}


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """A ModernBERT body: pre-norm, no biases, GeGLU.

    `is_global`: per layer, whether it sees the whole row; the others see `reach` tokens to each
    side. `max_positions`: the longest row it was made for.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    is_global: tuple[bool, ...]
    reach: int
    global_theta: float
    local_theta: float
    norm_eps: float
    max_positions: int

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_heads

    @property
    def num_layers(self) -> int:
        return len(self.is_global)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], where: str) -> EncoderConfig:
        """From `encoder/config.json`; `where` names the file. Raises ConfigError for a body of
        another architecture or with parts this package doesn't compute."""
        reader = _Reader(fields, where)
        reader.require("model_type", "modernbert")
        reader.require("hidden_activation", "gelu", default="gelu")
        for name in _UNBIASED:
            reader.require(name, False, default=False)
        layers = reader.count("num_hidden_layers")
        made = cls(
            vocab_size=reader.count("vocab_size"),
            hidden_size=reader.count("hidden_size"),
            intermediate_size=reader.count("intermediate_size"),
            num_heads=reader.count("num_attention_heads"),
            is_global=reader.layer_kinds(layers),
            reach=reader.count("local_attention", default=128) // 2,
            global_theta=reader.theta(_GLOBAL, "global_rope_theta"),
            local_theta=reader.theta(_LOCAL, "local_rope_theta"),
            norm_eps=reader.positive("norm_eps", default=1e-5),
            max_positions=reader.count("max_position_embeddings", default=8192),
        )
        if made.hidden_size % made.num_heads or made.head_dim % 2:
            raise ConfigError(
                f"{where}: {made.hidden_size} values don't divide into {made.num_heads} even heads"
            )
        return made


@dataclass(frozen=True, slots=True)
class MarkerConfig:
    """The head that reads option markers: transformer layers over the body, then a scorer.

    `num_actions`: outputs of the checkpoint's act head, which is not served.
    """

    layers: int
    num_actions: int

    @staticmethod
    def num_heads(hidden_size: int) -> int:
        """One attention head per 64 values."""
        return max(1, hidden_size // 64)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Fields of one config file, refused by name."""

    fields: Mapping[str, Any]
    where: str

    def require(self, name: str, value: Any, **default: Any) -> None:
        found = self.fields.get(name, default.get("default"))
        if found != value:
            raise ConfigError(f"{self.where}: {name} is {found!r}; only {value!r} is served")

    def count(self, name: str, default: int | None = None) -> int:
        value = self.fields.get(name, default)
        if type(value) is not int or value < 1:
            raise ConfigError(f"{self.where}: {name} is {value!r}, not a positive integer")
        return value

    def positive(self, name: str, default: float | None = None) -> float:
        return _positive(self.fields.get(name, default), f"{self.where}: {name}")

    def layer_kinds(self, layers: int) -> tuple[bool, ...]:
        kinds = self.fields.get("layer_types")
        if kinds is None:
            every = self.count("global_attn_every_n_layers", default=3)
            return tuple(layer % every == 0 for layer in range(layers))
        if not isinstance(kinds, list) or len(kinds) != layers or {*kinds} - {_GLOBAL, _LOCAL}:
            raise ConfigError(f"{self.where}: layer_types doesn't name {layers} known layers")
        return tuple(kind == _GLOBAL for kind in kinds)

    def theta(self, kind: str, old_name: str) -> float:
        default = self.fields.get(old_name, _DEFAULT_THETA[kind])
        rope = self.fields.get("rope_parameters")
        if self.fields.get("rope_scaling") is not None:
            raise ConfigError(f"{self.where}: rope_scaling is not served")
        if rope is None:
            return _positive(default, f"{self.where}: {old_name}")
        entry = rope.get(kind) if isinstance(rope, dict) else None
        if entry is None:
            entry = {}
        if not isinstance(entry, dict) or entry.get("rope_type", "default") != "default":
            raise ConfigError(f"{self.where}: rope_parameters of {kind}: {entry!r} is not served")
        return _positive(entry.get("rope_theta", default), f"{self.where}: rope_theta of {kind}")


def _positive(value: Any, what: str) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{what} is {value!r}, not a positive number")
    return float(value)
