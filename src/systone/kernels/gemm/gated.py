"""The MLP's gate|up product and its gated activation in one launch, where the device has
tensor-memory copies. M rows, K inputs, N outputs of a half. Tiles don't change a bit.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from systone.kernels.config import table_of
from systone.kernels.gemm.gated_kernel import gated_kernel
from systone.kernels.gemm.tiles import GemmTile
from systone.kernels.gemm.triton import describable


def gated(x: Tensor, weight: Tensor, *, out: Tensor | None = None) -> Tensor | None:
    """`swiglu(linear(x, weight))` to the bit: x [M, K], weight [2N, K] = gate|up -> [M, N]; None
    where the product and the activation are quicker in two launches."""
    tile = tile_of(x.shape[0], weight)
    if tile is None or not describable(x):
        return None
    return gated_with(x, weight, out, tile, table_of(x.device)[1])


def tile_of(rows: int, weight: Tensor) -> GemmTile | None:
    """The tile of so many rows; None where `gated` makes nothing."""
    config, processors = table_of(weight.device)
    if not describable(weight):
        return None
    return config.gated_tile(rows, weight.shape[0] // 2, weight.shape[1], processors)


def gated_with(
    x: Tensor, weight: Tensor, out: Tensor | None, tile: GemmTile, processors: int
) -> Tensor:
    """`gated` with one tile: how tiles are compared, bit for bit."""
    rows, inputs, outputs = x.shape[0], x.shape[1], weight.shape[0] // 2
    if out is None:
        out = torch.empty(rows, outputs, dtype=x.dtype, device=x.device)
    assert x.dtype == weight.dtype == out.dtype == torch.bfloat16
    assert weight.is_contiguous()
    assert weight.shape == (2 * outputs, inputs)
    assert out.shape == (rows, outputs)
    assert x.stride(1) == out.stride(1) == 1
    assert describable(x, weight, out)
    tiles = triton.cdiv(rows, tile.rows) * triton.cdiv(outputs, tile.columns)
    gated_kernel[(min(processors, tiles) if tile.persistent else tiles,)](
        TensorDescriptor.from_tensor(x, [tile.rows, tile.depth]),
        TensorDescriptor.from_tensor(
            weight.view(2, outputs, inputs), [2, tile.columns, tile.depth]
        ),
        TensorDescriptor.from_tensor(out, [tile.rows, tile.columns]),
        rows, outputs, inputs,
        BM=tile.rows, BN=tile.columns, BK=tile.depth, GROUP=tile.group,
        PERSISTENT=tile.persistent, STAGES=tile.stages,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return out
