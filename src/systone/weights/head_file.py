"""Pickled decision heads: read without running anything the pickle may carry.

Owns `head.pt` of Open-Jev: a state dict with `weight` float32 [1, hidden] and `bias` float32 [1];
and the state dict of a pointer head: `q.weight`, `k.weight` float32 [d, hidden], `q.bias`,
`k.bias` float32 [d].
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from systone.errors import ConfigError

__all__ = [
    "Head",
    "PointerHead",
    "ScalarHead",
    "check_tensor",
    "pointer_head",
    "read_pickle",
    "read_scalar_head",
]


@dataclass(frozen=True, slots=True, eq=False)
class ScalarHead:
    """score = weight . h + bias."""

    weight: torch.Tensor  # float32 [1, hidden]
    bias: torch.Tensor  # float32 [1]


@dataclass(frozen=True, slots=True, eq=False)
class PointerHead:
    """Two projections of a hidden state, of the query and of the keys, one over the other."""

    weight: torch.Tensor  # float32 [2d, hidden]: q, then k
    bias: torch.Tensor  # float32 [2d]


Head = ScalarHead | PointerHead


def pointer_head(path: Path, state: Any, hidden: int, width: int) -> PointerHead:
    """The head in a state dict read from `path`. Raises ConfigError naming file and tensor for
    anything but four finite float32 tensors."""
    if not isinstance(state, Mapping) or set(state) != {
        f"{half}.{part}" for half in "qk" for part in ("weight", "bias")
    }:
        raise ConfigError(f"{path}: 'head' is not a state dict of q and k, each weight and bias")
    weight = [
        check_tensor(path, f"{h}.weight", state[f"{h}.weight"], (width, hidden)) for h in "qk"
    ]
    bias = [check_tensor(path, f"{h}.bias", state[f"{h}.bias"], (width,)) for h in "qk"]
    return PointerHead(torch.cat(weight), torch.cat(bias))


def read_pickle(path: Path) -> Any:
    """The pickle's content. Raises ConfigError if it needs anything but tensors and plain data."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about unusual pickles: they load safely or fail
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror})") from None
    except pickle.UnpicklingError:
        raise ConfigError(f"{path}: holds more than tensors and plain data; refused") from None
    except (RuntimeError, EOFError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise ConfigError(f"{path}: not a readable torch file") from None


def read_scalar_head(path: Path, hidden: int) -> ScalarHead:
    """Raises ConfigError naming file and tensor for anything but two finite float32 tensors."""
    state = read_pickle(path)
    if not isinstance(state, Mapping) or set(state) != {"weight", "bias"}:
        raise ConfigError(f"{path}: a head is a state dict with exactly 'weight' and 'bias'")
    weight = check_tensor(path, "weight", state["weight"], (1, hidden))
    return ScalarHead(weight, check_tensor(path, "bias", state["bias"], (1,)))


def check_tensor(path: Path, name: str, value: Any, shape: tuple[int, ...]) -> torch.Tensor:
    """`value` as a dense float32 tensor of that shape. Raises ConfigError otherwise."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        raise ConfigError(f"{path}: {name!r} is not a tensor")
    if value.dtype != torch.float32:
        raise ConfigError(f"{path}: {name!r} has dtype {value.dtype}, not torch.float32")
    if tuple(value.shape) != shape:
        raise ConfigError(f"{path}: {name!r} has shape {list(value.shape)}, not {list(shape)}")
    if not bool(torch.isfinite(value).all()):
        raise ConfigError(f"{path}: {name!r} has values that are not finite")
    return value.detach().contiguous()
