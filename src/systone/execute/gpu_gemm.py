"""Which backend multiplies: cuBLASLt where it is proven to be the canonical product, else ours.

Which shapes are proven, the self-check says when a model starts. A shape that failed once runs the
canonical kernel always. The MLP's gate|up product runs with its activation in one launch where
that is proven and quicker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from systone.execute.buckets import PRODUCT_ROWS
from systone.kernels.config import table_of
from systone.kernels.gemm import cublaslt, gated
from systone.kernels.gemm import triton as canonical
from systone.kernels.gemm.tiles import GemmTile
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
        product = canonical.linear if self._is_ours(x.shape[0], weight) else cublaslt.linear
        for begin in range(0, x.shape[0], PRODUCT_ROWS):
            product(x[begin : begin + PRODUCT_ROWS], weight, out=out[begin : begin + PRODUCT_ROWS])
        return out

    def activated(self, x: Tensor, gate_up: Tensor, wide: Tensor, out: Tensor) -> Tensor:
        """silu(gate) * up of gate|up = `linear(x, gate_up)`. `wide` [M, 2I]: scratch that may be
        left unwritten."""
        if _shape(gate_up) in self.gated:
            made = gated.gated(x, gate_up, out=out)
            if made is not None:
                return made
        self.linear(x, gate_up, wide)
        return swiglu(wide, out=out)

    def warm(self, weights: Iterable[Tensor], row_counts: Collection[int]) -> None:
        """Launch once every variant of our kernels that products of so many rows take: one that
        isn't loaded by then would be compiled, or read from disk, in the middle of serving."""
        for weight in weights:
            table, processors = table_of(weight.device)
            x = weight.new_zeros(_FEW_ROWS, weight.shape[1])  # the count is no part of a variant
            fused, plain = self._tiles(weight, row_counts)
            for tile in fused:
                gated.gated_with(x, weight, None, tile, processors)
            for tile in plain:
                canonical.linear_with(
                    x, weight, None, tile, processors, descriptors=table.descriptors
                )
            if _shape(weight) in self.gated:
                swiglu(weight.new_zeros(_FEW_ROWS, weight.shape[0]))  # where it is a launch apart

    def _tiles(
        self, weight: Tensor, row_counts: Collection[int]
    ) -> tuple[set[GemmTile], set[GemmTile]]:
        """Tiles of our kernels at these row counts: with the activation, and without."""
        table, processors = table_of(weight.device)
        fused, plain = set(), set()
        for rows in row_counts:
            tile = gated.tile_of(rows, weight) if _shape(weight) in self.gated else None
            if tile is not None:
                fused.add(tile)
            elif self._is_ours(rows, weight):
                plain.add(table.gemm_tile(rows, int(weight.shape[0]), processors))
        return fused, plain

    def _is_ours(self, rows: int, weight: Tensor) -> bool:
        """Whether a product of so many rows is our kernel's."""
        shape = _shape(weight)
        if shape not in self.fast or (rows < _FEW_ROWS and _long_sums(shape)):
            return True
        return table_of(weight.device)[0].beats_library(rows, *shape)

    def describe(self) -> Mapping[str, str]:
        """Backend by shape, "NxK"."""
        said = {f"{n}x{k}": "cublaslt" for n, k in self.fast}
        for n, k in filter(_long_sums, self.fast):
            said[f"{n}x{k}"] += f", canonical below {_FEW_ROWS} rows"
        said |= {f"{n}x{k}": f"canonical (M={m})" for (n, k), m in self.failed.items()}
        for n, k in self.gated:
            said[f"{n}x{k}"] = f"{said.get(f'{n}x{k}', 'canonical')}, gated where quicker"
        return said


def _shape(weight: Tensor) -> Shape:
    return int(weight.shape[0]), int(weight.shape[1])


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
