"""Which backend multiplies: cuBLASLt where it is proven to be the canonical product, else ours.

The proof runs on the serving device and the loaded weights: every weight shape, every row count a
pass may have, compared bit for bit. A shape that fails once runs the canonical kernel always.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from systone.kernels.gemm import cublaslt
from systone.kernels.gemm import triton as canonical
from systone.nn.text_weights import AttentionWeights, TextWeights

log = logging.getLogger(__name__)

Shape = tuple[int, int]  # outputs, inputs
_FIRST_ROWS, _MIDDLE_ROWS = 2048, 4096


def row_bucket(rows: int) -> int:
    """The row count `rows` rows run at: steps of 64 to 2048, 128 to 4096, then 256."""
    step = 64 if rows <= _FIRST_ROWS else 128 if rows <= _MIDDLE_ROWS else 256
    return max(-(-rows // step) * step, step)


def readout_bucket(rows: int) -> int:
    """The same for read-out rows: 8, 16, 32, ... by powers of two."""
    return max(8, 1 << (rows - 1).bit_length())


def buckets_up_to(rows: int) -> list[int]:
    """Every token bucket up to the one that holds `rows`."""
    found = [row_bucket(1)]
    while found[-1] < rows:
        found.append(row_bucket(found[-1] + 1))
    return found


@dataclass(slots=True)
class Products:
    """`linear` with a backend per weight shape. `fast`: shapes proven on this device."""

    fast: set[Shape] = field(default_factory=set)
    failed: dict[Shape, int] = field(default_factory=dict)  # shape -> the first M that differed

    def linear(self, x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
        """Call inside `cublaslt.exact_blas`."""
        if (weight.shape[0], weight.shape[1]) in self.fast:
            return cublaslt.linear(x, weight, out=out)
        return canonical.linear(x, weight, out=out)

    def prove(self, weights: Sequence[Tensor], row_counts: Sequence[int]) -> None:
        """Compare both backends for one weight of every shape at every row count."""
        by_shape = {(w.shape[0], w.shape[1]): w for w in weights}
        for shape, weight in by_shape.items():
            wrong = _first_difference(weight, row_counts)
            if wrong is None:
                self.fast.add(shape)
            else:
                self.failed[shape] = wrong
                log.warning(
                    "cuBLASLt differs from the canonical product for %s at M=%d", shape, wrong
                )

    def describe(self) -> Mapping[str, str]:
        """Backend by shape, "NxK"."""
        fast = {f"{n}x{k}": "cublaslt" for n, k in self.fast}
        return fast | {f"{n}x{k}": f"canonical (M={m})" for (n, k), m in self.failed.items()}


def _first_difference(weight: Tensor, row_counts: Sequence[int]) -> int | None:
    """The smallest row count at which the backends' bits differ, None if they never do."""
    most = max(row_counts)
    generator = torch.Generator(weight.device).manual_seed(most)
    x = torch.randn(most, weight.shape[1], generator=generator, device=weight.device)
    x = x.to(weight.dtype)
    with cublaslt.exact_blas():
        for rows in sorted(row_counts):
            if not torch.equal(
                cublaslt.linear(x[:rows], weight), canonical.linear(x[:rows], weight)
            ):
                return rows
    return None


def projections(weights: TextWeights, queries: int) -> list[Tensor]:
    """Every weight a pass multiplies by; the last attention layer's in two parts."""
    found = []
    for layer in weights.layers:
        found += [layer.mixer.in_proj, layer.mixer.out_proj, layer.gate_up, layer.down]
    last = weights.layers[-1].mixer
    if isinstance(last, AttentionWeights):
        found += [last.in_proj[:queries], last.in_proj[queries:]]
    return found
