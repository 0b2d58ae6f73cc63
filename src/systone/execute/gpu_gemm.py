"""Which backend multiplies: cuBLASLt where it is proven to be the canonical product, else ours.

Which shapes are proven, the self-check says when a model starts. A shape that failed once runs the
canonical kernel always. The MLP's gate|up product runs with its activation in one launch where
that is proven and quicker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from systone.execute.buckets import PRODUCT_ROWS
from systone.kernels.config import table_of
from systone.kernels.gemm import cublaslt, gated
from systone.kernels.gemm import triton as canonical
from systone.kernels.swiglu.triton import swiglu
from systone.nn.text_weights import AttentionWeights, TextWeights

Shape = tuple[int, int]  # outputs, inputs

_FEW_ROWS = 64  # what only tails have: every trunk is padded to at least so many


@dataclass(slots=True)
class Products:
    """`linear` with a backend per weight shape. `fast`: shapes proven on this device; `gated`:
    gate|up shapes whose product with the activation is."""

    fast: set[Shape] = field(default_factory=set)
    gated: set[Shape] = field(default_factory=set)
    failed: dict[Shape, int] = field(default_factory=dict)  # shape -> the first M that differed

    def linear(self, x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
        """Call inside `cublaslt.exact_blas`. Rows beyond `PRODUCT_ROWS` in products of their own,
        so that none has a row count the self-check hasn't seen."""
        shape = int(weight.shape[0]), int(weight.shape[1])
        product = canonical.linear
        rows = x.shape[0]
        ours = rows < _FEW_ROWS and _long_sums(shape)
        if shape in self.fast and not (ours or table_of(x.device)[0].beats_library(rows, *shape)):
            product = cublaslt.linear
        for begin in range(0, x.shape[0], PRODUCT_ROWS):
            product(x[begin : begin + PRODUCT_ROWS], weight, out=out[begin : begin + PRODUCT_ROWS])
        return out

    def activated(self, x: Tensor, gate_up: Tensor, wide: Tensor, out: Tensor) -> Tensor:
        """silu(gate) * up of gate|up = `linear(x, gate_up)`. `wide` [M, 2I]: scratch that may be
        left unwritten."""
        if (gate_up.shape[0], gate_up.shape[1]) in self.gated:
            made = gated.gated(x, gate_up, out=out)
            if made is not None:
                return made
        self.linear(x, gate_up, wide)
        return swiglu(wide, out=out)

    def describe(self) -> Mapping[str, str]:
        """Backend by shape, "NxK"."""
        said = {f"{n}x{k}": "cublaslt" for n, k in self.fast}
        for n, k in filter(_long_sums, self.fast):
            said[f"{n}x{k}"] += f", canonical below {_FEW_ROWS} rows"
        said |= {f"{n}x{k}": f"canonical (M={m})" for (n, k), m in self.failed.items()}
        for n, k in self.gated:
            said[f"{n}x{k}"] = f"{said.get(f'{n}x{k}', 'canonical')}, gated where quicker"
        return said


def _long_sums(shape: Shape) -> bool:
    """Where cuBLASLt, kept from splitting K, leaves most of the device idle at few rows: 275 us for
    8 x 4096 x 12288 on an H200, seven times what reading the weight takes."""
    outputs, inputs = shape
    return inputs > 2 * outputs


def projections(weights: TextWeights, queries: int) -> list[Tensor]:
    """Every weight a pass multiplies by; the last attention layer's in two parts."""
    found = []
    for layer in weights.layers:
        found += [layer.mixer.in_proj, layer.mixer.out_proj, layer.gate_up, layer.down]
    last = weights.layers[-1].mixer
    if isinstance(last, AttentionWeights):
        found += [last.in_proj[:queries], last.in_proj[queries:]]
    return found
