"""Normal noise that is a pure function of (seed, tensor name, element index).

Owns the generator of synthetic weights. Integer hashing and a lookup table only, so every device,
thread count and library version gives the same bits. Knows no model.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from statistics import NormalDist

import torch

__all__ = ["normal", "uniform"]

_LEVELS = 1 << 16  # one 16-bit draw per element
_CHUNK_CPU = 1 << 20  # elements hashed at a time: stays in a core's cache
_CHUNK_DEVICE = 1 << 26

# Constants of the splitmix64 generator (Steele, Lea, Flood 2014), as signed 64-bit integers.
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX2 = 0x94D049BB133111EB - (1 << 64)


def normal(
    shape: tuple[int, ...],
    *,
    seed: int,
    name: str,
    std: float,
    mean: float = 0.0,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
) -> torch.Tensor:
    """N(mean, std) values, each one of 65,536 quantiles (so within 4.4 std), rounded to `dtype`."""
    out = torch.empty(shape, dtype=dtype, device=device)
    table = _table(std, mean, dtype, out.device)
    flat = out.view(-1)
    chunk = _CHUNK_CPU if out.device.type == "cpu" else _CHUNK_DEVICE
    key = _key(seed, name)
    for start in range(0, flat.numel(), chunk):
        stop = min(start + chunk, flat.numel())
        draws = _draws(key, start, stop, out.device)
        torch.index_select(table, 0, draws, out=flat[start:stop])
    return out


def uniform(count: int, *, seed: int, name: str) -> list[float]:
    """`count` numbers in (0, 1), for the few values that are computed in float64."""
    draws = _draws(_key(seed, name), 0, count, torch.device("cpu"))
    return [(draw + 0.5) / _LEVELS for draw in draws.tolist()]


@lru_cache(maxsize=64)  # tensors of one law follow each other; a copy to a device waits for it
def _table(std: float, mean: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return (_quantiles() * std + mean).to(dtype).to(device)


@lru_cache(maxsize=1)
def _quantiles() -> torch.Tensor:
    """float64 [65536]: the mid-quantiles of N(0, 1)."""
    inverse = NormalDist().inv_cdf
    return torch.tensor([inverse((i + 0.5) / _LEVELS) for i in range(_LEVELS)], dtype=torch.float64)


def _key(seed: int, name: str) -> int:
    digest = hashlib.sha256(f"systone-synth-1|{seed}|{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


def _draws(key: int, start: int, stop: int, device: torch.device) -> torch.Tensor:
    """int32 [stop - start] in 0..65535 for elements start..stop; `start` is a multiple of 4."""
    first, last = start // 4, -(-stop // 4)  # a 64-bit word serves four elements
    x = torch.arange(first + 1, last + 1, dtype=torch.int64, device=device)
    x.mul_(_GOLDEN).add_(key)  # wraps modulo 2^64
    x.bitwise_xor_(_shift(x, 30)).mul_(_MIX1)
    x.bitwise_xor_(_shift(x, 27)).mul_(_MIX2)
    x.bitwise_xor_(_shift(x, 31))
    return x.view(torch.int16)[: stop - start].to(torch.int32).bitwise_and_(0xFFFF)


def _shift(x: torch.Tensor, bits: int) -> torch.Tensor:
    """Logical right shift; torch's own shift of int64 keeps the sign."""
    return (x >> bits).bitwise_and_((1 << (64 - bits)) - 1)
