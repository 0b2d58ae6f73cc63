"""GDN work of a chunk that no state enters: unit keys and queries, its triangular inverse, its
inner products, its gates.

One program takes (chunk, value head) pairs from the chunk list. For a chunk of n <= TILE tokens
with unit keys k, unit queries q, log decays g (G: summed) and strengths beta (Yang et al., "Gated
Delta Networks", 2024):
    L = strict lower of beta_i <k_i, k_j> e^(G_i - G_j),   X = (I + L)^-1,
    P = lower of <q_i, k_j> e^(G_i - G_j) Dk^-0.5,
left for the scan as Z = diag(e^(G_n - G)) X diag(beta) and Y = P X diag(beta).

k, q, P, X, Y and Z are bounded by 1 (the delta rule contracts), so fp16 holds them with three more
bits than bf16: one product on tensor cores is enough where bf16 would need three.
"""

import triton
import triton.language as tl

from systone.kernels.device import round_to, sigmoid, softplus

MATRICES = tl.constexpr(2)  # Z, Y: rows of one token and head
SCALARS = tl.constexpr(4)  # e^G, e^G Dk^-0.5, decay of the chunk, unused
WIDTH = tl.constexpr(64)
BLOCK = tl.constexpr(16)  # diagonal blocks solved by substitution


@triton.jit
def dot_half(a, b):
    """FP32 a @ b of operands bounded by about 1, on fp16 tensor cores."""
    return tl.dot(a.to(tl.float16), b.to(tl.float16))


@triton.jit
def _solve_blocks(lower, block_ptr, TILE: tl.constexpr):
    """Block-diagonal inverse of I + lower: each 16 x 16 block by substitution, row after row.

    A lane owns one column of one block and meets the rows through `block_ptr` [TILE, 16], so that
    no step waits for another lane. -> [TILE, TILE], zero off the diagonal blocks."""
    i = tl.arange(0, TILE)[:, None]
    j = tl.arange(0, TILE)[None, :]
    own = (i // BLOCK) == (j // BLOCK)
    tl.store(block_ptr + i * BLOCK + j % BLOCK, lower, mask=own)
    tl.debug_barrier()
    lane = tl.arange(0, TILE)
    rows = block_ptr + (lane // BLOCK) * (BLOCK * BLOCK)
    column = lane % BLOCK
    solved = (tl.where(column == 0, 1.0, 0.0),)
    for row in tl.static_range(1, 16):
        value = tl.where(column == row, 1.0, 0.0)
        for earlier in tl.static_range(0, row):
            value -= tl.load(rows + row * BLOCK + earlier) * solved[earlier]
        solved = solved + (value,)  # noqa: RUF005 - Triton has no unpacking
    tl.debug_barrier()
    for row in tl.static_range(0, 16):
        tl.store(rows + row * BLOCK + column, solved[row])
    tl.debug_barrier()
    found = tl.load(block_ptr + i * BLOCK + j % BLOCK, mask=own, other=0.0)
    tl.debug_barrier()
    return found


@triton.jit
def unit_lower_inverse(lower, block_ptr, TILE: tl.constexpr):
    """(I + lower)^-1 of a strictly lower triangular [TILE, TILE].

    Diagonal blocks first, then pairs are joined: [[A, 0], [C, B]]^-1 = [[A^-1, 0],
    [-B^-1 C A^-1, B^-1]]. No power of `lower` is ever formed: equal keys would make it grow beyond
    what FP32 can cancel."""
    inverse = _solve_blocks(lower, block_ptr, TILE)
    bi = tl.arange(0, TILE)[:, None] // BLOCK
    bj = tl.arange(0, TILE)[None, :] // BLOCK
    if TILE > 16:
        below = tl.where((bi // 2 == bj // 2) & (bi > bj), lower, 0.0)
        inverse = inverse - dot_half(dot_half(inverse, below), inverse)
    if TILE > 32:
        below = tl.where(bi // 2 > bj // 2, lower, 0.0)
        inverse = inverse - dot_half(dot_half(inverse, below), inverse)
    return inverse


@triton.jit
def _prepare(
    q_ptr, k_ptr, a_ptr, b_ptr, log_ptr, bias_ptr, unit_ptr, matrix_ptr, scalar_ptr, block_ptr,
    length, stride_x, stride_a, stride_b, scale, eps, leads,
    HK: tl.constexpr, HV: tl.constexpr, DK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Pointers stand at the chunk's first token and at its head: offsets within fit 32 bits.
    `leads`: this value head is its key head's first and writes the unit rows."""
    i = tl.arange(0, TILE)
    d = tl.arange(0, DK)
    valid = i < length
    rows = valid[:, None]
    at = i[:, None] * stride_x + d[None, :]
    k = tl.load(k_ptr + at, mask=rows, other=0.0)
    q = tl.load(q_ptr + at, mask=rows, other=0.0)
    a = tl.load(a_ptr + i * stride_a, mask=valid, other=0.0)
    b = tl.load(b_ptr + i * stride_b, mask=valid, other=0.0)
    rate = tl.exp(tl.load(log_ptr).to(tl.float32))
    bias = tl.load(bias_ptr).to(tl.float32)
    kf = k.to(tl.float32)
    k_norm = tl.rsqrt(tl.sum(kf * kf, axis=1) + eps)
    qf = q.to(tl.float32)
    q_norm = tl.rsqrt(tl.sum(qf * qf, axis=1) + eps)
    if leads:
        to = unit_ptr + i[:, None] * (2 * HK * DK) + d[None, :]
        tl.store(to, (qf * q_norm[:, None]).to(tl.float16), mask=rows)
        tl.store(to + HK * DK, (kf * k_norm[:, None]).to(tl.float16), mask=rows)

    beta = tl.where(valid, round_to(sigmoid(b.to(tl.float32)), b.dtype), 0.0)
    decay = tl.cumsum(tl.where(valid, -rate * softplus(a.to(tl.float32) + bias), 0.0), axis=0)
    total = tl.sum(tl.where(i == TILE - 1, decay, 0.0), axis=0)
    grown = tl.exp(decay)
    to = scalar_ptr + i * (HV * SCALARS)
    tl.store(to, grown, mask=valid)
    tl.store(to + 1, grown * scale, mask=valid)
    tl.store(to + 2, tl.zeros_like(decay) + tl.exp(total), mask=valid)

    # the raw bf16 rows are exact operands: their norms are FP32 factors of the products
    seen = i[:, None] >= i[None, :]
    gap = tl.where(seen, decay[:, None] - decay[None, :], float("-inf"))  # gaps ahead overflow
    pairwise = tl.exp(gap) * k_norm[None, :]
    lower = tl.dot(k, tl.trans(k)) * pairwise * (k_norm * beta)[:, None]
    lower = tl.where(i[:, None] > i[None, :], lower, 0.0)
    inverse = unit_lower_inverse(lower, block_ptr, TILE)
    delta = inverse * tl.exp(total - decay)[:, None] * beta[None, :]
    to = matrix_ptr + i[:, None] * (HV * MATRICES * WIDTH) + i[None, :]
    tl.store(to, delta.to(tl.float16), mask=rows)
    inner = tl.dot(q, tl.trans(k)) * pairwise * (q_norm * scale)[:, None]
    inner = dot_half(inner, inverse) * beta[None, :]
    tl.store(to + WIDTH, inner.to(tl.float16), mask=rows)


@triton.jit
def gdn_chunk_kernel(
    qkv_ptr, a_ptr, b_ptr, log_ptr, bias_ptr, unit_ptr, matrix_ptr, scalar_ptr, block_ptr,
    count_ptr, start_ptr, length_ptr, tile_ptr,
    stride_x, stride_a, stride_b, scale, eps,
    COUNT: tl.constexpr, HK: tl.constexpr, HV: tl.constexpr, DK: tl.constexpr,
):  # fmt: skip
    """Writes `unit` [T, q|k, HK, DK], `matrix` [T, HV, 2, 64] and `scalar` [T, HV, 4] for every
    chunk of the list; `block` [programs, 64, 16] is this program's own scratch."""
    items = tl.load(count_ptr + COUNT) * HV
    block = block_ptr + tl.program_id(0) * (WIDTH * BLOCK)
    for item in tl.range(tl.program_id(0), items, tl.num_programs(0), disable_licm=True):
        chunk = item // HV
        head = item % HV
        first = tl.load(start_ptr + chunk).to(tl.int64)
        length = tl.load(length_ptr + chunk)
        tile = tl.load(tile_ptr + chunk)
        key = head // (HV // HK)
        q = qkv_ptr + first * stride_x + key * DK
        k = q + HK * DK
        a = a_ptr + first * stride_a + head
        b = b_ptr + first * stride_b + head
        log = log_ptr + head
        bias = bias_ptr + head
        unit = unit_ptr + first * (2 * HK * DK) + key * DK
        matrix = matrix_ptr + (first * HV + head) * (MATRICES * WIDTH)
        scalar = scalar_ptr + (first * HV + head) * SCALARS
        leads = head % (HV // HK) == 0
        if tile == 64:
            _prepare(q, k, a, b, log, bias, unit, matrix, scalar, block, length,
                     stride_x, stride_a, stride_b, scale, eps, leads, HK, HV, DK, 64)  # fmt: skip
        elif tile == 32:
            _prepare(q, k, a, b, log, bias, unit, matrix, scalar, block, length,
                     stride_x, stride_a, stride_b, scale, eps, leads, HK, HV, DK, 32)  # fmt: skip
        else:
            _prepare(q, k, a, b, log, bias, unit, matrix, scalar, block, length,
                     stride_x, stride_a, stride_b, scale, eps, leads, HK, HV, DK, 16)  # fmt: skip
