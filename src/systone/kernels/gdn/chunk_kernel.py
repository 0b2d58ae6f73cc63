"""GDN work of a chunk that no state enters: its triangular inverse, its inner products, its gates.

One program takes (chunk, value head) pairs from the chunk list. For a chunk of n <= TILE tokens with
keys k, queries q, log decays g and strengths beta (Yang et al., "Gated Delta Networks", 2024):
L = strict lower of beta_i <k_i, k_j> e^(G_i - G_j), X = (I + L)^-1, P = lower of <q_i, k_j> e^(G_i - G_j).
Dot products take the raw bf16 q and k; the L2 norms are FP32 factors, so nothing is rounded twice.
"""

import triton
import triton.language as tl

from systone.kernels.device import bf16_pair, round_to, sigmoid, softplus

MATRICES = tl.constexpr(4)  # X high, X low, P high, P low of one token and head
SCALARS = tl.constexpr(8)  # read factor, beta, query factor, write factor, chunk decay, unused
WIDTH = tl.constexpr(64)


@triton.jit
def unit_lower_inverse(lower, TILE: tl.constexpr):
    """(I + lower)^-1 of a strictly lower triangular [TILE, TILE].

    Blocks of 16 on the diagonal by substitution in row order, then pairs of blocks are joined:
    [[A, 0], [C, B]]^-1 = [[A^-1, 0], [-B^-1 C A^-1, B^-1]]. No power of `lower` is ever formed:
    equal keys would make them overflow what FP32 can cancel."""
    BLOCKS: tl.constexpr = TILE // 16
    four = tl.reshape(lower, (BLOCKS, 16, BLOCKS, 16))
    outer = tl.arange(0, BLOCKS)
    same = outer[:, None, None, None] == outer[None, None, :, None]
    diagonal = tl.sum(tl.where(same, four, 0.0), axis=2)
    i = tl.arange(0, 16)[None, :, None]
    j = tl.arange(0, 16)[None, None, :]
    inverse = tl.zeros_like(diagonal) + tl.where(i == j, 1.0, 0.0)
    for row in range(0, 15):
        column = tl.sum(tl.where(j == row, diagonal, 0.0), axis=2)
        solved = tl.sum(tl.where(i == row, inverse, 0.0), axis=1)
        inverse -= column[:, :, None] * solved[:, None, :]
    if TILE == 16:
        return tl.reshape(inverse, (16, 16))
    whole = tl.reshape(tl.where(same, inverse[:, :, None, :], 0.0), (TILE, TILE))
    bi = tl.arange(0, TILE)[:, None] // 16
    bj = tl.arange(0, TILE)[None, :] // 16
    whole = _join(whole, tl.where((bi // 2 == bj // 2) & (bi > bj), lower, 0.0))
    if TILE == 64:
        whole = _join(whole, tl.where(bi // 2 > bj // 2, lower, 0.0))
    return whole


@triton.jit
def _join(inverse, below):
    half = tl.dot(inverse, below, input_precision="tf32x3")
    return inverse - tl.dot(half, inverse, input_precision="tf32x3")


@triton.jit
def _prepare(
    q_ptr, k_ptr, a_ptr, b_ptr, log_ptr, bias_ptr, matrix_ptr, scalar_ptr,
    length, stride_x, stride_a, stride_b, scale, eps,
    HV: tl.constexpr, DK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Pointers stand at the chunk's first token and at its head."""
    i = tl.arange(0, TILE)
    d = tl.arange(0, DK)
    valid = i < length
    rows = i
    at = rows[:, None] * stride_x + d[None, :]
    q = tl.load(q_ptr + at, mask=valid[:, None], other=0.0)
    k = tl.load(k_ptr + at, mask=valid[:, None], other=0.0)
    qf = q.to(tl.float32)
    kf = k.to(tl.float32)
    q_norm = tl.rsqrt(tl.sum(qf * qf, axis=1) + eps) * scale
    k_norm = tl.rsqrt(tl.sum(kf * kf, axis=1) + eps)

    a = tl.load(a_ptr + rows * stride_a, mask=valid, other=0.0)
    b = tl.load(b_ptr + rows * stride_b, mask=valid, other=0.0)
    beta = tl.where(valid, round_to(sigmoid(b.to(tl.float32)), b.dtype), 0.0)
    rate = tl.exp(tl.load(log_ptr).to(tl.float32))
    g = -rate * softplus(a.to(tl.float32) + tl.load(bias_ptr).to(tl.float32))
    g = tl.where(valid, g, 0.0)
    decay = tl.cumsum(g, axis=0)
    total = tl.sum(tl.where(i == TILE - 1, decay, 0.0), axis=0)

    earlier = i[:, None] >= i[None, :]
    pairwise = tl.where(earlier, tl.exp(tl.where(earlier, decay[:, None] - decay[None, :], 0.0)), 0.0)
    pairwise = pairwise * k_norm[None, :]
    to = matrix_ptr + rows[:, None] * (HV * MATRICES * WIDTH) + i[None, :]
    high, low = bf16_pair(tl.dot(q, tl.trans(k)) * pairwise * q_norm[:, None])
    tl.store(to + 2 * WIDTH, high, mask=valid[:, None])
    tl.store(to + 3 * WIDTH, low, mask=valid[:, None])
    kk = tl.dot(k, tl.trans(k)) * pairwise * (k_norm * beta)[:, None]
    inverse = unit_lower_inverse(tl.where(i[:, None] > i[None, :], kk, 0.0), TILE)
    high, low = bf16_pair(inverse)
    tl.store(to, high, mask=valid[:, None])
    tl.store(to + WIDTH, low, mask=valid[:, None])
    grown = tl.exp(decay)
    to = scalar_ptr + rows * (HV * SCALARS)
    tl.store(to, grown * k_norm, mask=valid)
    tl.store(to + 1, beta, mask=valid)
    tl.store(to + 2, grown * q_norm, mask=valid)
    tl.store(to + 3, tl.exp(total - decay) * k_norm, mask=valid)
    tl.store(to + 4, tl.zeros_like(decay) + tl.exp(total), mask=valid)


@triton.jit
def gdn_chunk_kernel(
    qkv_ptr, a_ptr, b_ptr, log_ptr, bias_ptr, matrix_ptr, scalar_ptr,
    count_ptr, start_ptr, length_ptr, tile_ptr,
    stride_x, stride_a, stride_b, scale, eps,
    COUNT: tl.constexpr, HK: tl.constexpr, HV: tl.constexpr, DK: tl.constexpr,
):  # fmt: skip
    """Writes `matrix` [T, HV, 4, 64] and `scalar` [T, HV, 8] for every chunk of the list."""
    items = tl.load(count_ptr + COUNT) * HV
    for item in range(tl.program_id(0), items, tl.num_programs(0)):
        chunk = item // HV
        head = item % HV
        first = tl.load(start_ptr + chunk).to(tl.int64)
        length = tl.load(length_ptr + chunk)
        tile = tl.load(tile_ptr + chunk)
        q = qkv_ptr + first * stride_x + (head // (HV // HK)) * DK
        k = q + HK * DK
        a = a_ptr + first * stride_a + head
        b = b_ptr + first * stride_b + head
        matrix = matrix_ptr + (first * HV + head) * (MATRICES * WIDTH)
        scalar = scalar_ptr + (first * HV + head) * SCALARS
        if tile == 64:
            _prepare(q, k, a, b, log_ptr + head, bias_ptr + head, matrix, scalar, length,
                     stride_x, stride_a, stride_b, scale, eps, HV, DK, 64)  # fmt: skip
        elif tile == 32:
            _prepare(q, k, a, b, log_ptr + head, bias_ptr + head, matrix, scalar, length,
                     stride_x, stride_a, stride_b, scale, eps, HV, DK, 32)  # fmt: skip
        else:
            _prepare(q, k, a, b, log_ptr + head, bias_ptr + head, matrix, scalar, length,
                     stride_x, stride_a, stride_b, scale, eps, HV, DK, 16)  # fmt: skip
