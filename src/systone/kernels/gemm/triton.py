"""The canonical matrix product on a GPU; signature of `reference`. bf16 in and out, FP32 sums.

M rows, K inputs, N outputs. Tiles follow M by a fixed table and don't change a bit.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from systone.kernels.config import table_of
from systone.kernels.gemm.kernel import gemm_descriptor_kernel, gemm_kernel
from systone.kernels.gemm.tiles import GemmTile


def linear(x: Tensor, weight: Tensor, *, out: Tensor | None = None) -> Tensor:
    """See `reference.linear`; bf16 only."""
    config, processors = table_of(x.device)
    tile = config.gemm_tile(x.shape[0], weight.shape[0], processors)
    return linear_with(x, weight, out, tile, processors, descriptors=config.descriptors)


def linear_with(
    x: Tensor,
    weight: Tensor,
    out: Tensor | None,
    tile: GemmTile,
    processors: int,
    *,
    descriptors: bool,
) -> Tensor:
    """`linear` with one tile of the table: how tiles are compared, bit for bit."""
    assert x.dtype == weight.dtype == torch.bfloat16
    assert x.stride(1) == 1
    assert weight.is_contiguous()
    assert x.shape[1] == weight.shape[1]
    rows, outputs = x.shape[0], weight.shape[0]
    if out is None:
        out = torch.empty(rows, outputs, dtype=x.dtype, device=x.device)
    assert out.stride(1) == 1
    assert out.shape == (rows, outputs)
    if rows == 0:
        return out
    if descriptors and describable(x, weight, out):
        _by_descriptors(x, weight, out, tile, processors)
    else:
        _by_pointers(x, weight, out, tile)
    return out


def _by_pointers(x: Tensor, weight: Tensor, out: Tensor, tile: GemmTile) -> None:
    rows, outputs, inputs = x.shape[0], weight.shape[0], weight.shape[1]
    tiles = triton.cdiv(rows, tile.rows) * triton.cdiv(outputs, tile.columns)
    gemm_kernel[(tiles,)](
        x, weight, out, rows, outputs, inputs, x.stride(0), out.stride(0),
        BM=tile.rows, BN=tile.columns, BK=tile.depth, GROUP=tile.group, STAGES=tile.stages,
        num_warps=tile.warps,
    )  # fmt: skip


def _by_descriptors(
    x: Tensor, weight: Tensor, out: Tensor, tile: GemmTile, processors: int
) -> None:
    rows, outputs, inputs = x.shape[0], weight.shape[0], weight.shape[1]
    tiles = triton.cdiv(rows, tile.rows) * triton.cdiv(outputs, tile.columns + tile.rest)
    stored = tile.columns // 2 if tile.halves else tile.columns
    weight_tiles = TensorDescriptor.from_tensor(weight, [tile.columns, tile.depth])
    out_tiles = TensorDescriptor.from_tensor(out, [tile.rows, stored])
    rest_tiles, out_rest = weight_tiles, out_tiles
    if tile.rest:
        rest_tiles = TensorDescriptor.from_tensor(weight, [tile.rest, tile.depth])
        out_rest = TensorDescriptor.from_tensor(out, [tile.rows, tile.rest])
    gemm_descriptor_kernel[(min(processors, tiles) if tile.persistent else tiles,)](
        TensorDescriptor.from_tensor(x, [tile.rows, tile.depth]),
        weight_tiles, rest_tiles, out_tiles, out_rest, rows, outputs, inputs,
        BM=tile.rows, BN=tile.columns, REST=tile.rest, BK=tile.depth, GROUP=tile.group,
        HALVES=tile.halves, PERSISTENT=tile.persistent, STAGES=tile.stages,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip


def describable(*tensors: Tensor) -> bool:
    """A tensor descriptor needs 16-byte aligned rows."""
    return all(t.data_ptr() % 16 == 0 and t.stride(0) * t.element_size() % 16 == 0 for t in tensors)
