"""The canonical matrix product: every output is one FP32 sum over K in order, rounded once.

Tiles decide speed only: the bits are the same for every tile and every M. M rows, K inputs, N
outputs; x [M, K] row-major, weight [N, K] row-major.
"""

import triton
import triton.language as tl


@triton.jit
def place(tile, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Tile number -> (m, n) so that programs running together share weight and input tiles."""
    band = GROUP * tiles_n
    first = tile // band * GROUP
    height = tl.minimum(tiles_m - first, GROUP)
    inside = tile % band
    return first + inside % height, inside // height


@triton.jit(do_not_specialize=["M"])
def gemm_kernel(
    x_ptr, weight_ptr, out_ptr, M, N, K, stride_x, stride_out,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Pointers: any generation. K % BK may be anything; M and N too."""
    tile_m, tile_n = place(tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN), GROUP)
    m = tile_m * BM + tl.arange(0, BM)
    n = tile_n * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    # rows beyond the edge read row 0 and are never stored
    x_at = x_ptr + tl.where(m < M, m, 0).to(tl.int64)[:, None] * stride_x + k[None, :]
    w_at = weight_ptr + tl.where(n < N, n, 0).to(tl.int64)[:, None] * K + k[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for first in tl.range(0, K, BK, num_stages=STAGES):
        inside = (k < K - first)[None, :]
        x = tl.load(x_at, mask=inside, other=0.0)
        w = tl.load(w_at, mask=inside, other=0.0)
        acc = tl.dot(x, tl.trans(w), acc)
        x_at += BK
        w_at += BK
    to = out_ptr + m.to(tl.int64)[:, None] * stride_out + n[None, :]
    tl.store(to, acc.to(out_ptr.dtype.element_ty), mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def _product_tile(
    x_tiles, weight_tiles, rest_tiles, out_tiles, out_rest, tile, tiles_m, tiles_n, K,
    BM: tl.constexpr, BN: tl.constexpr, REST: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    HALVES: tl.constexpr,
):  # fmt: skip
    tile_m, tile_n = place(tile, tiles_m, tiles_n, GROUP)
    row = tile_m * BM
    column = tile_n * (BN + REST)
    # a loop that may be empty makes the assembler wait for every tensor-core product
    tl.assume(K > 0)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    if REST > 0:
        rest = tl.zeros((BM, REST), dtype=tl.float32)
    for first in range(0, K, BK):
        x = x_tiles.load([row, first])
        acc = tl.dot(x, tl.trans(weight_tiles.load([column, first])), acc)
        if REST > 0:
            rest = tl.dot(x, tl.trans(rest_tiles.load([column + BN, first])), rest)
    out = acc.to(out_tiles.dtype)
    if HALVES:
        left, right = out.reshape(BM, 2, BN // 2).permute(0, 2, 1).split()
        out_tiles.store([row, column], left)
        out_tiles.store([row, column + BN // 2], right)
    else:
        out_tiles.store([row, column], out)
    if REST > 0:
        out_rest.store([row, column + BN], rest.to(out_rest.dtype))


@triton.jit(do_not_specialize=["M"])
def gemm_descriptor_kernel(
    x_tiles, weight_tiles, rest_tiles, out_tiles, out_rest, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, REST: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    HALVES: tl.constexpr, PERSISTENT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Tensor-memory copies (SM 9.0 and up): edges are cut by the hardware. A tile is BN + REST
    columns wide: 80 of them or 192 fill a GPU where no power of two does. HALVES: the output goes
    through half the shared memory. PERSISTENT: few programs walk all tiles, loading the next one
    while they store; with two sums the assembler would make every product wait there."""
    tl.static_assert(REST == 0 or not PERSISTENT)
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN + REST)
    if PERSISTENT:
        for tile in tl.range(
            tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True, num_stages=STAGES
        ):
            _product_tile(
                x_tiles, weight_tiles, rest_tiles, out_tiles, out_rest, tile, tiles_m, tiles_n, K,
                BM, BN, REST, BK, GROUP, HALVES,
            )  # fmt: skip
    else:
        _product_tile(
            x_tiles, weight_tiles, rest_tiles, out_tiles, out_rest, tl.program_id(0),
            tiles_m, tiles_n, K, BM, BN, REST, BK, GROUP, HALVES,
        )  # fmt: skip
