"""The arithmetic of merging a LoRA, to the same bits on every device and thread count.

Owns the rounding rules and the comparison of two merges; knows no files. W is [out, in], A
[rank, in], B [out, rank]; the merged weight is W + scale * B @ A.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from systone.errors import ConfigError

__all__ = [
    "ACCUMULATION",
    "Difference",
    "MergeRule",
    "blas_merge",
    "check_rule",
    "compare",
    "low_rank_product",
    "merge",
]

# double-rounding: bf16(W + bf16(2 B@A)), as PEFT's safe merge and the native exports (Open-Jev).
# single-rounding: bf16(W + 2 B@A), one rounding (Kev). unrounded: float32, for FP32 comparisons.
MergeRule = Literal["double-rounding", "single-rounding", "unrounded"]

ACCUMULATION = "fp32 sum over rank in rising order, one multiply and one add per term"
# Elements of W merged at a time. On the CPU temporaries must be small beside the tensors that stay,
# or the heap they share grows to twice the model; on a device, launches cost more than memory.
_BLOCK_CPU = 1 << 18
_BLOCK_DEVICE = 1 << 24
_COMPARED = 1 << 20  # elements compared at a time


def check_rule(rule: str) -> MergeRule:
    """Raises ConfigError for a rule that doesn't exist."""
    for known in get_args(MergeRule):
        if rule == known:
            return known  # type: ignore[no-any-return]
    raise ConfigError(f"merge rule {rule!r} is none of: {', '.join(get_args(MergeRule))}")


def low_rank_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """B @ A in float32 [out, in].

    Terms in rising rank order, each by one multiplication and one addition of its own: no BLAS
    and no fused multiply-add, whose order and rounding differ between devices and thread counts.
    """
    total = b[:, 0:1] * a[0:1, :]
    for r in range(1, a.shape[0]):
        total += b[:, r : r + 1] * a[r : r + 1, :]
    return total


def merge(
    weight: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale: float, rule: MergeRule
) -> torch.Tensor:
    """The merged weight on W's device; bfloat16, or float32 under "unrounded"."""
    a, b = (part.to(weight.device, torch.float32) for part in (a, b))
    kind = torch.float32 if rule == "unrounded" else torch.bfloat16
    merged = torch.empty(weight.shape, dtype=kind, device=weight.device)
    block = _BLOCK_CPU if weight.device.type == "cpu" else _BLOCK_DEVICE
    step = max(1, block // weight.shape[1])
    for start in range(0, weight.shape[0], step):
        rows = slice(start, start + step)
        delta = low_rank_product(a, b[rows]).mul_(scale)
        if rule == "double-rounding":
            delta = delta.to(torch.bfloat16).to(torch.float32)
        merged[rows] = delta.add_(weight[rows].to(torch.float32)).to(kind)
    return merged


def blas_merge(
    weight: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale: float
) -> torch.Tensor:
    """The double-rounding merge with B @ A as one float32 matrix product, PEFT's own arithmetic:
    its bits depend on the device, the library and the thread count. For comparison only."""
    a, b = (part.to(weight.device, torch.float32) for part in (a, b))
    delta = ((b @ a) * scale).to(torch.bfloat16)
    return weight.to(torch.bfloat16) + delta


@dataclass(frozen=True, slots=True)
class Difference:
    """How two merges of one weight differ: elements, of how many, and by how many bf16 steps."""

    differing: int
    total: int
    max_ulp: int

    def __add__(self, other: Difference) -> Difference:
        """Of both weights together."""
        return Difference(
            self.differing + other.differing,
            self.total + other.total,
            max(self.max_ulp, other.max_ulp),
        )


def compare(ours: torch.Tensor, theirs: torch.Tensor) -> Difference:
    """Compare two finite bfloat16 tensors of one shape bit by bit."""
    if ours.shape != theirs.shape or {ours.dtype, theirs.dtype} != {torch.bfloat16}:
        raise ValueError("two bfloat16 tensors of one shape are compared")
    differing = largest = 0
    mine, other = ours.reshape(-1), theirs.reshape(-1)
    for start in range(0, mine.numel(), _COMPARED):
        block = slice(start, start + _COMPARED)
        steps = (_ordinal(mine[block]) - _ordinal(other[block])).abs()
        differing += int((steps != 0).sum())
        largest = max(largest, int(steps.max()))
    return Difference(differing, ours.numel(), largest)


def _ordinal(value: torch.Tensor) -> torch.Tensor:
    """int32 position on the bf16 number line, so that neighbours differ by one; -0 equals +0."""
    bits = value.cpu().contiguous().view(torch.int16).to(torch.int32)
    return torch.where(bits < 0, -(bits & 0x7FFF), bits)
