"""LoRA adapters in PEFT's files: reading, pairing and checking them.

Owns `adapter/`; merging is `merge.py`. A is [rank, in], B [out, rank].
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from systone.errors import ConfigError
from systone.weights.safetensors_file import SafetensorsFile
from systone.weights.shapes import Expected

__all__ = ["Adapter", "read_adapter"]

# Variants that change the arithmetic; absent, false or empty in every official adapter.
_VARIANTS = (
    "use_dora",
    "use_rslora",
    "fan_in_fan_out",
    "lora_bias",
    "rank_pattern",
    "alpha_pattern",
    "modules_to_save",
    "trainable_token_indices",
    "layer_replication",
)
_KEY = re.compile(r"(?:.*\.)?(layers\.\d+\.(?:\w+\.)+)lora_(A|B)(?:\.default)?\.weight")


@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """`pairs`: canonical weight name -> (A, B), float32."""

    rank: int
    scale: float
    pairs: Mapping[str, tuple[torch.Tensor, torch.Tensor]]


def read_adapter(
    directory: Path, targets: Mapping[str, Expected], rank: int, alpha: int
) -> Adapter:
    """Read `adapter_config.json` and `adapter_model.safetensors`.

    `targets`: canonical names of the weights that must be adapted, each with its shape. Every
    pair must be there, whole, float32 and finite, and nothing else. Raises ConfigError.
    """
    _check_config(directory / "adapter_config.json", targets, rank, alpha)
    path = directory / "adapter_model.safetensors"
    file = SafetensorsFile(path)
    found: dict[tuple[str, str], torch.Tensor] = {}
    for name in file.entries:
        target, half = _target(name)
        if target not in targets:
            raise ConfigError(f"{path}: {name!r} adapts no target of this model")
        if (target, half) in found:
            raise ConfigError(f"{path}: {name!r} is there under two names")
        out, fan_in = targets[target].shape
        shape = (rank, fan_in) if half == "A" else (out, rank)
        found[target, half] = _checked(path, name, file, shape)
    pairs: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for target in targets:
        for half in "AB":
            if (target, half) not in found:
                raise ConfigError(f"{path}: lora_{half} of {target!r} is missing")
        pairs[target] = (found[target, "A"], found[target, "B"])
    return Adapter(rank, alpha / rank, pairs)


def _target(name: str) -> tuple[str, str]:
    """The canonical weight a stored LoRA tensor belongs to and which half it is, or empty."""
    match = _KEY.fullmatch(name)
    return (f"{match[1]}weight", match[2]) if match else ("", "")


def _checked(path: Path, name: str, file: SafetensorsFile, shape: tuple[int, ...]) -> torch.Tensor:
    entry = file.entries[name]
    if entry.dtype != "F32":
        raise ConfigError(f"{path}: {name!r} has dtype {entry.dtype}, not F32")
    if entry.shape != shape:
        raise ConfigError(f"{path}: {name!r} has shape {list(entry.shape)}, not {list(shape)}")
    value = file.tensor(name).clone()
    if not bool(torch.isfinite(value).all()):
        raise ConfigError(f"{path}: {name!r} has values that are not finite")
    return value


def _check_config(path: Path, targets: Mapping[str, Expected], rank: int, alpha: int) -> None:
    try:
        config = json.loads(path.read_bytes())
        modules = set(config["target_modules"])
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{path}: not a PEFT adapter configuration") from None
    wanted = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": alpha,
        "bias": "none",
    }
    for field, value in wanted.items():
        if config.get(field) != value:
            raise ConfigError(f"{path}: {field} is {config.get(field)!r}, not {value!r}")
    for field in _VARIANTS:
        if config.get(field):
            raise ConfigError(f"{path}: {field} is set; this merge doesn't know it")
    expected = {name.split(".")[-2] for name in targets}
    if modules != expected:
        raise ConfigError(f"{path}: target_modules are {sorted(modules)}, not {sorted(expected)}")
