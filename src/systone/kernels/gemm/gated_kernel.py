"""The MLP's gate and up products and its gated activation in one kernel: silu(gate) * up.

Both halves are the canonical product of `kernel`, rounded where the model rounds them, so that the
bits are those of the product followed by the activation. M rows, K inputs, N outputs of a half.
"""

import triton
import triton.language as tl

from systone.kernels.device import round_to, silu
from systone.kernels.gemm.kernel import place


@triton.jit
def _gated_tile(
    x_tiles, weight_tiles, out_tiles, tile, tiles_m, tiles_n, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    tile_m, tile_n = place(tile, tiles_m, tiles_n, GROUP)
    # a loop that may be empty makes the assembler wait for every tensor-core product
    tl.assume(K > 0)
    both = tl.zeros((BM, 2 * BN), dtype=tl.float32)
    for first in range(0, K, BK):
        x = x_tiles.load([tile_m * BM, first])
        w = weight_tiles.load([0, tile_n * BN, first]).reshape(2 * BN, BK)
        both = tl.dot(x, tl.trans(w), both)
    dtype: tl.constexpr = out_tiles.dtype
    rounded = both.to(dtype)
    gate, up = rounded.reshape(BM, 2, BN).permute(0, 2, 1).split()
    active = round_to(silu(gate.to(tl.float32)), dtype) * up.to(tl.float32)
    out_tiles.store([tile_m * BM, tile_n * BN], active.to(dtype))


@triton.jit(do_not_specialize=["M"])
def gated_kernel(
    x_tiles, weight_tiles, out_tiles, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    PERSISTENT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """`weight_tiles`: [2, N, K], gate then up. Tensor-memory copies cut the edges."""
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    if PERSISTENT:
        for tile in tl.range(
            tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True, num_stages=STAGES
        ):
            _gated_tile(
                x_tiles, weight_tiles, out_tiles, tile, tiles_m, tiles_n, K, BM, BN, BK, GROUP
            )
    else:
        _gated_tile(
            x_tiles, weight_tiles, out_tiles, tl.program_id(0), tiles_m, tiles_n, K,
            BM, BN, BK, GROUP,
        )  # fmt: skip
