"""Has a row's product the same bits at every row count, and is cuBLASLt's the canonical one?

Every weight shape, heads included, every row count a pass may run at, on loaded weights, with three
kinds of rows. The truth is the canonical product of all rows at once. M rows, K inputs, N outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from systone.execute.gpu_gemm import Shape
from systone.kernels.gemm import cublaslt, gated
from systone.kernels.gemm import triton as canonical
from systone.kernels.head.triton import label_head
from systone.kernels.swiglu.triton import swiglu

__all__ = ["Shape", "Verdict", "check_heads", "check_products", "one_of_each_shape"]

Product = Callable[..., Tensor]
MaybeProduct = Callable[..., Tensor | None]

_OUTLIERS = 1e3
_OUTLIER_EVERY = 1000


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one shape: the first row count at which a product's bits differed, None for none.

    `canonical`: our own product at that row count against all rows at once. `gated`: the product
    with its activation, of gate|up shapes. `wanted`: whether the operator wants cuBLASLt at all."""

    canonical: int | None
    cublaslt: int | None
    wanted: bool = True
    gated: int | None = None

    @property
    def fast(self) -> bool:
        return self.wanted and self.cublaslt is None and self.canonical is None

    @property
    def refused(self) -> bool:
        return self.canonical is not None or (self.wanted and self.cublaslt is not None)

    @property
    def mode(self) -> str:
        if self.fast:
            return "cublaslt"
        if not self.refused:
            return "canonical"
        if self.canonical is not None:
            return f"canonical, varies at M={self.canonical}"
        return f"canonical, cublaslt differs at M={self.cublaslt}"

    def as_json(self) -> Mapping[str, Any]:
        return asdict(self)


def one_of_each_shape(weights: Sequence[Tensor]) -> dict[Shape, Tensor]:
    """A loaded weight for every (N, K)."""
    return {(int(w.shape[0]), int(w.shape[1])): w for w in weights}


def check_products(
    weights: Mapping[Shape, Tensor],
    row_counts: Sequence[int],
    warm: Mapping[Shape, Tensor],
    *,
    activated: Collection[Shape] = (),
    fast: Product = cublaslt.linear,
    exact: Product = canonical.linear,
    fused: MaybeProduct = gated.gated,
    activation: Product = swiglu,
) -> dict[Shape, Verdict]:
    """A verdict for every shape. `warm`: rows [>= 1, K] that a real pass multiplied by a weight of
    the shape, where there are any; `activated`: the gate|up shapes. Call inside `exact_blas`."""
    counts = sorted(set(row_counts))
    found = {}
    for shape, weight in weights.items():
        wrong: dict[str, int] = {}
        for rows in _inputs(weight, counts[-1], warm.get(shape)):
            truth = exact(rows, weight)
            for name, product in (("canonical", exact), ("cublaslt", fast)):
                at = _first_difference(product, rows, weight, truth, counts)
                if at is not None:
                    wrong[name] = min(at, wrong.get(name, at))
            if shape in activated:
                at = _first_difference(fused, rows, weight, activation(truth), counts)
                if at is not None:
                    wrong["gated"] = min(at, wrong.get("gated", at))
        found[shape] = Verdict(
            wrong.get("canonical"), wrong.get("cublaslt"), gated=wrong.get("gated")
        )
    return found


def check_heads(
    weights: Mapping[Shape, Tensor],
    row_counts: Sequence[int],
    warm: Mapping[Shape, Tensor],
    *,
    product: Product = label_head,
) -> dict[Shape, Verdict]:
    """`check_products` of FP32 projections of bf16 rows, for which there is one kernel."""
    found = check_products(weights, row_counts, warm, fast=product, exact=product)
    return {shape: Verdict(v.canonical, None, wanted=False) for shape, v in found.items()}


def _first_difference(
    product: MaybeProduct, rows: Tensor, weight: Tensor, truth: Tensor, counts: Sequence[int]
) -> int | None:
    """The smallest row count at which `product` differs from `truth` in a bit, NaN and the sign of
    zero counted; where it makes nothing there is nothing to compare. Comparisons stay on the
    device: one read back for all row counts."""
    words = torch.int32 if truth.dtype == torch.float32 else torch.int16
    bits = truth.view(words)
    same = {}
    for m in counts:
        made = product(rows[:m], weight)
        if made is not None:
            same[m] = (made.view(words) == bits[:m]).all()
    if not same:
        return None
    wrong = (~torch.stack(list(same.values()))).nonzero()
    return list(same)[int(wrong[0])] if wrong.numel() else None


def _inputs(weight: Tensor, rows: int, warm: Tensor | None) -> Iterator[Tensor]:
    """Gaussian rows, the same with one in a thousand values a thousand times larger, and rows of a
    real pass repeated to `rows`."""
    width = int(weight.shape[1])
    generator = torch.Generator(weight.device).manual_seed(width)
    options: dict[str, Any] = {"generator": generator, "device": weight.device}
    gaussian = torch.randn(rows, width, dtype=torch.bfloat16, **options)
    yield gaussian
    drawn = torch.randint(0, _OUTLIER_EVERY, (rows, width), dtype=torch.int16, **options)
    gaussian[drawn == 0] *= _OUTLIERS
    yield gaussian
    if warm is not None:
        repeats = -(-rows // warm.shape[0])
        yield warm.repeat(repeats, 1)[:rows].contiguous()
