"""GDN work of a chunk that no state enters: its triangular inverse, its inner products, its gates.

One program takes (chunk, key head) pairs from the chunk list and does all value heads of the key
head: they share inner products, and their substitutions run side by side. For a chunk of
n <= TILE tokens with unit keys k, unit queries q, log decays g (G: summed) and strengths beta (Yang
et al., "Gated Delta Networks", 2024):
    L = strict lower of beta_i <k_i, k_j> e^(G_i - G_j),   X = (I + L)^-1,
    P = lower of <q_i, k_j> e^(G_i - G_j) Dk^-0.5,
left for the scan as Z = diag(e^(G_n - G)) X diag(beta), Y = P X diag(beta) and e^G.

k, q, P, X, Y and Z are bounded by 1 (the delta rule contracts), so fp16 holds them with three more
bits than bf16: one product on tensor cores is enough where bf16 would need three.
"""

import triton
import triton.language as tl

from systone.kernels.device import round_to, sigmoid, softplus

MATRICES = tl.constexpr(2)  # Z, Y: rows of one token and head
WIDTH = tl.constexpr(64)
BLOCK = tl.constexpr(16)  # diagonal blocks solved by substitution


@triton.jit
def dot_half(a, b):
    """FP32 a @ b of operands bounded by about 1, on fp16 tensor cores."""
    return tl.dot(a.to(tl.float16), b.to(tl.float16))


@triton.jit
def _solve_blocks(block_ptr, LANES: tl.constexpr):
    """Inverses of I + L for every strictly lower 16 x 16 block L of `block_ptr` [LANES, 16], in
    place, by substitution, row after row.

    A lane owns one column of one block and meets the rows through memory, so that no step waits
    for another lane."""
    tl.debug_barrier()
    lane = tl.arange(0, LANES)
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


@triton.jit
def _join_blocks(inverse, lower, TILE: tl.constexpr):
    """(I + lower)^-1 of a strictly lower triangular [TILE, TILE] from its block-diagonal inverse.

    Pairs are joined: [[A, 0], [C, B]]^-1 = [[A^-1, 0], [-B^-1 C A^-1, B^-1]]. No power of `lower`
    is ever formed: equal keys would make it grow beyond what FP32 can cancel."""
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
def _gates(a_ptr, b_ptr, log_ptr, bias_ptr, valid, i, stride_a, stride_b):
    """(summed log decays, strengths) [TILE] of one value head; zero strength beyond the chunk."""
    a = tl.load(a_ptr + i * stride_a, mask=valid, other=0.0)
    b = tl.load(b_ptr + i * stride_b, mask=valid, other=0.0)
    rate = tl.exp(tl.load(log_ptr).to(tl.float32))
    bias = tl.load(bias_ptr).to(tl.float32)
    beta = tl.where(valid, round_to(sigmoid(b.to(tl.float32)), b.dtype), 0.0)
    decay = tl.where(valid, -rate * softplus(a.to(tl.float32) + bias), 0.0)
    return tl.cumsum(decay, axis=0), beta


@triton.jit
def _prepare(
    a_ptr, b_ptr, log_ptr, bias_ptr, unit_ptr, matrix_ptr, growth_ptr, block_ptr,
    length, stride_a, stride_b, stride_growth, scale,
    HK: tl.constexpr, HV: tl.constexpr, DK: tl.constexpr, TILE: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Every value head of one key head. Pointers stand at the chunk's first token and at the first
    head: offsets within fit 32 bits. LANES: block rows of the heads, rounded up to a power of 2."""
    GROUP: tl.constexpr = HV // HK
    i = tl.arange(0, TILE)
    j = tl.arange(0, TILE)[None, :]
    d = tl.arange(0, DK)
    valid = i < length
    rows = valid[:, None]
    at = unit_ptr + i[:, None] * (2 * HK * DK) + d[None, :]
    q = tl.load(at, mask=rows, other=0.0)
    k = tl.load(at + HK * DK, mask=rows, other=0.0)
    alike = tl.dot(k, tl.trans(k))
    asked = tl.dot(q, tl.trans(k)) * scale
    own = (i[:, None] // BLOCK) == (j // BLOCK)
    block = block_ptr + i[:, None] * BLOCK + j % BLOCK
    decays, strengths = (), ()
    for head in tl.static_range(0, GROUP):
        decay, beta = _gates(a_ptr + head, b_ptr + head, log_ptr + head, bias_ptr + head,
                             valid, i, stride_a, stride_b)  # fmt: skip
        tl.store(growth_ptr + head * stride_growth + i, tl.exp(decay), mask=valid)
        ahead = i[:, None] > j  # gaps ahead overflow
        gap = tl.where(ahead, decay[:, None] - decay[None, :], float("-inf"))
        lower = alike * tl.exp(gap) * beta[:, None]
        tl.store(block + head * (TILE * BLOCK), lower, mask=own)
        decays = decays + (decay,)  # noqa: RUF005
        strengths = strengths + (beta,)  # noqa: RUF005
    _solve_blocks(block_ptr, LANES)
    for head in tl.static_range(0, GROUP):
        decay, beta = decays[head], strengths[head]
        seen = i[:, None] >= j
        pairwise = tl.exp(tl.where(seen, decay[:, None] - decay[None, :], float("-inf")))
        lower = tl.where(i[:, None] > j, alike * pairwise * beta[:, None], 0.0)
        inverse = tl.load(block + head * (TILE * BLOCK), mask=own, other=0.0)
        inverse = _join_blocks(inverse, lower, TILE)
        total = tl.sum(tl.where(i == TILE - 1, decay, 0.0), axis=0)
        to = matrix_ptr + i[:, None] * (HV * MATRICES * WIDTH) + head * (MATRICES * WIDTH)
        delta = inverse * tl.exp(total - decay)[:, None] * beta[None, :]
        tl.store(to + j, delta.to(tl.float16), mask=rows)
        inner = dot_half(asked * pairwise, inverse) * beta[None, :]
        tl.store(to + WIDTH + j, inner.to(tl.float16), mask=rows)
        if TILE < 64:  # a scan may read whole rows
            blank = tl.arange(0, 64)[None, :]
            beyond = rows & (blank >= TILE)
            tl.store(to + blank, tl.zeros([TILE, 64], tl.float16), mask=beyond)
            tl.store(to + WIDTH + blank, tl.zeros([TILE, 64], tl.float16), mask=beyond)


@triton.jit(do_not_specialize=["stride_growth"])
def gdn_chunk_kernel(
    a_ptr, b_ptr, log_ptr, bias_ptr, unit_ptr, matrix_ptr, growth_ptr, block_ptr,
    count_ptr, start_ptr, length_ptr, tile_ptr,
    stride_a, stride_b, stride_growth, scale,
    COUNT: tl.constexpr, HK: tl.constexpr, HV: tl.constexpr, DK: tl.constexpr,
    ROOM: tl.constexpr,
):  # fmt: skip
    """Writes `matrix` [T, HV, 2, 64] and `growth` [HV, T] for every chunk of the list from unit
    rows `unit` [T, q|k, HK, DK]; `block` [programs, ROOM * 64, 16] is this program's own scratch,
    ROOM the value heads of a key head rounded up to a power of two."""
    GROUP: tl.constexpr = HV // HK
    items = tl.load(count_ptr + COUNT) * HK
    block = block_ptr + tl.program_id(0) * (ROOM * WIDTH * BLOCK)
    for item in tl.range(tl.program_id(0), items, tl.num_programs(0), disable_licm=True):
        chunk = item // HK
        key = item % HK
        head = key * GROUP
        first = tl.load(start_ptr + chunk).to(tl.int64)
        length = tl.load(length_ptr + chunk)
        tile = tl.load(tile_ptr + chunk)
        a = a_ptr + first * stride_a + head
        b = b_ptr + first * stride_b + head
        log = log_ptr + head
        bias = bias_ptr + head
        unit = unit_ptr + first * (2 * HK * DK) + key * DK
        matrix = matrix_ptr + (first * HV + head) * (MATRICES * WIDTH)
        growth = growth_ptr + head * stride_growth + first
        if tile == 64:
            _prepare(a, b, log, bias, unit, matrix, growth, block, length, stride_a,
                     stride_b, stride_growth, scale, HK, HV, DK, 64, ROOM * 64)  # fmt: skip
        elif tile == 32:
            _prepare(a, b, log, bias, unit, matrix, growth, block, length, stride_a,
                     stride_b, stride_growth, scale, HK, HV, DK, 32, ROOM * 32)  # fmt: skip
        else:
            _prepare(a, b, log, bias, unit, matrix, growth, block, length, stride_a,
                     stride_b, stride_growth, scale, HK, HV, DK, 16, ROOM * 16)  # fmt: skip
