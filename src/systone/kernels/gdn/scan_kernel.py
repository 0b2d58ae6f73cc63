"""The recurrence of the gated delta rule along segments: from a parent's state to outputs and state.

Everything is kept transposed (value axis first), so that the FP32 state stays in registers and is
the left operand of every product. FP32 operands enter the bf16 tensor cores as high + low pairs;
the low x low product (2^-16 of the result) is left out. With S the state at the chunk's start:
D = X (beta (v - e^G |k| k S)), o = e^G q S + P D, S' = e^G_n S + (e^(G_n - G) k)^T D.
"""

import triton
import triton.language as tl

from systone.kernels.device import bf16_pair
from systone.kernels.gdn.chunk_kernel import MATRICES, SCALARS, WIDTH


@triton.jit
def _chunk(
    state, k, q, v, x_high, x_low, p_high, p_low, scalar_ptr, out_ptr, length,
    HV: tl.constexpr, DV: tl.constexpr, BV: tl.constexpr, TILE: tl.constexpr,
    UPDATE: tl.constexpr,
):  # fmt: skip
    """One chunk of loaded tiles: k, q [TILE, DK], v [TILE, BV], matrices [TILE, TILE]; rows beyond
    `length` are zero. Pointers stand at the chunk's first token and at the head. state [BV, DK]."""
    i = tl.arange(0, TILE)
    e = tl.arange(0, BV)
    valid = i < length
    scalars = scalar_ptr + i * (HV * SCALARS)
    read = tl.load(scalars, mask=valid, other=0.0)
    beta = tl.load(scalars + 1, mask=valid, other=0.0)
    ask = tl.load(scalars + 2, mask=valid, other=0.0)

    s_high, s_low = bf16_pair(state)
    held = tl.dot(s_high, tl.trans(k))
    held = tl.dot(s_low, tl.trans(k), held)
    result = tl.dot(s_high, tl.trans(q))
    result = tl.dot(s_low, tl.trans(q), result) * ask[None, :]
    fresh = tl.trans(v).to(tl.float32) - held * read[None, :]
    high, low = bf16_pair(fresh * beta[None, :])
    delta = tl.dot(high, tl.trans(x_high))
    delta = tl.dot(low, tl.trans(x_high), delta)
    delta = tl.dot(high, tl.trans(x_low), delta)

    high, low = bf16_pair(delta)
    result = tl.dot(high, tl.trans(p_high), result)
    result = tl.dot(low, tl.trans(p_high), result)
    result = tl.dot(high, tl.trans(p_low), result)
    to = out_ptr + i[None, :] * (HV * DV) + e[:, None]
    tl.store(to, result.to(out_ptr.dtype.element_ty), mask=valid[None, :])

    if UPDATE:
        write = tl.load(scalars + 3, mask=valid, other=0.0)
        high, low = bf16_pair(delta * write[None, :])
        state = state * tl.load(scalar_ptr + 4)
        state = tl.dot(high, k, state)
        state = tl.dot(low, k, state)
    return state


@triton.jit
def _last_chunk(
    state, q_ptr, v_ptr, matrix_ptr, scalar_ptr, out_ptr, length, stride_x,
    HK: tl.constexpr, HV: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, BV: tl.constexpr,
    TILE: tl.constexpr, UPDATE: tl.constexpr,
):  # fmt: skip
    """A segment's last chunk: what lies beyond it is a neighbour's, or NaN, and is never read."""
    i = tl.arange(0, TILE)
    d = tl.arange(0, DK)
    e = tl.arange(0, BV)
    inside = (i < length)[:, None]
    at = q_ptr + i[:, None] * stride_x + d[None, :]
    q = tl.load(at, mask=inside, other=0.0)
    k = tl.load(at + HK * DK, mask=inside, other=0.0)
    v = tl.load(v_ptr + i[:, None] * stride_x + e[None, :], mask=inside, other=0.0)
    at = matrix_ptr + i[:, None] * (HV * MATRICES * WIDTH) + i[None, :]
    x_high = tl.load(at, mask=inside, other=0.0)
    x_low = tl.load(at + WIDTH, mask=inside, other=0.0)
    p_high = tl.load(at + 2 * WIDTH, mask=inside, other=0.0)
    p_low = tl.load(at + 3 * WIDTH, mask=inside, other=0.0)
    return _chunk(state, k, q, v, x_high, x_low, p_high, p_low, scalar_ptr, out_ptr, length,
                  HV, DV, BV, TILE, UPDATE)  # fmt: skip


@triton.jit
def _full_chunks(
    state, qk_tiles, v_tiles, matrix_tiles, qkv_ptr, matrix_ptr, scalar_ptr, out_ptr,
    first, chunks, head, e0, stride_x,
    HK: tl.constexpr, HV: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, BV: tl.constexpr,
    STAGES: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """`chunks` chunks of 64 tokens from flat token `first` on."""
    i = tl.arange(0, 64)
    key = head // (HV // HK) * DK
    value = 2 * HK * DK + head * DV + e0
    for c in tl.range(0, chunks, num_stages=STAGES, disable_licm=True):
        row = first + c * 64
        at = row.to(tl.int64)
        if DESCRIPTORS:
            k = qk_tiles.load([row, HK * DK + key])
            q = qk_tiles.load([row, key])
            v = v_tiles.load([row, value])
            m = head * MATRICES
            x_high = tl.reshape(matrix_tiles.load([row, m, 0]), (64, 64))
            x_low = tl.reshape(matrix_tiles.load([row, m + 1, 0]), (64, 64))
            p_high = tl.reshape(matrix_tiles.load([row, m + 2, 0]), (64, 64))
            p_low = tl.reshape(matrix_tiles.load([row, m + 3, 0]), (64, 64))
        else:
            x = qkv_ptr + at * stride_x + i[:, None] * stride_x
            d = tl.arange(0, DK)[None, :]
            k = tl.load(x + (HK * DK + key + d))
            q = tl.load(x + (key + d))
            v = tl.load(x + (value + tl.arange(0, BV)[None, :]))
            m = matrix_ptr + (at * HV + head) * (MATRICES * WIDTH)
            m += i[:, None] * (HV * MATRICES * WIDTH) + i[None, :]
            x_high = tl.load(m)
            x_low = tl.load(m + WIDTH)
            p_high = tl.load(m + 2 * WIDTH)
            p_low = tl.load(m + 3 * WIDTH)
        state = _chunk(
            state, k, q, v, x_high, x_low, p_high, p_low,
            scalar_ptr + (at * HV + head) * SCALARS, out_ptr + (at * HV + head) * DV + e0,
            64, HV, DV, BV, 64, True,
        )  # fmt: skip
    return state


@triton.jit(do_not_specialize=["range_at"])
def gdn_scan_kernel(
    qk_tiles, v_tiles, matrix_tiles, qkv_ptr, matrix_ptr, scalar_ptr, state_ptr, out_ptr,
    range_ptr, range_at, list_ptr, start_ptr, length_ptr, chunk_ptr, tile_ptr, parent_ptr, slot_ptr,
    stride_x,
    HK: tl.constexpr, HV: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, BV: tl.constexpr,
    LEAF: tl.constexpr, STAGES: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Walks segments list[range[range_at]:range[range_at + 1]]; a program owns one (head, value block).

    States are [slots, HV, DV, DK]. A leaf writes none, and siblings next to each other in the list
    share one load of their parent's state as long as it is unchanged. `*_tiles`: descriptors of qkv
    and of the matrices where the device has them."""
    BLOCKS: tl.constexpr = DV // BV
    lane = tl.program_id(0) % (HV * BLOCKS)
    part = tl.program_id(0) // (HV * BLOCKS)
    parts = tl.num_programs(0) // (HV * BLOCKS)
    head = lane // BLOCKS
    e0 = (lane % BLOCKS) * BV
    begin = tl.load(range_ptr + range_at)
    stop = tl.load(range_ptr + range_at + 1)
    share = tl.cdiv(stop - begin, parts)

    d = tl.arange(0, DK)
    e = tl.arange(0, BV)
    inside = (e0 + e)[:, None] * DK + d[None, :]
    state = tl.zeros((BV, DK), dtype=tl.float32)
    held = -1
    for n in range(begin + part * share, tl.minimum(begin + (part + 1) * share, stop)):
        seg = tl.load(list_ptr + n)
        parent = tl.load(parent_ptr + seg)
        if (parent != held) | (parent < 0):
            base = (tl.maximum(parent, 0).to(tl.int64) * HV + head) * (DV * DK)
            state = tl.load(state_ptr + base + inside, mask=(inside >= 0) & (parent >= 0), other=0.0)
        first = tl.load(start_ptr + seg)
        chunks = tl.load(chunk_ptr + seg + 1) - tl.load(chunk_ptr + seg)
        tile = tl.load(tile_ptr + tl.load(chunk_ptr + seg + 1) - 1)
        state = _full_chunks(
            state, qk_tiles, v_tiles, matrix_tiles, qkv_ptr, matrix_ptr, scalar_ptr, out_ptr,
            first, chunks - 1, head, e0, stride_x, HK, HV, DK, DV, BV, STAGES, DESCRIPTORS,
        )  # fmt: skip
        held = tl.where(chunks > 1, -1, parent)
        rest = tl.load(length_ptr + seg) - (chunks - 1) * 64
        at = first.to(tl.int64) + (chunks - 1) * 64
        q = qkv_ptr + at * stride_x + head // (HV // HK) * DK
        v = qkv_ptr + at * stride_x + 2 * HK * DK + head * DV + e0
        matrix = matrix_ptr + (at * HV + head) * (MATRICES * WIDTH)
        scalar = scalar_ptr + (at * HV + head) * SCALARS
        out = out_ptr + (at * HV + head) * DV + e0
        if tile == 64:
            state = _last_chunk(state, q, v, matrix, scalar, out, rest, stride_x,
                                HK, HV, DK, DV, BV, 64, not LEAF)  # fmt: skip
        elif tile == 32:
            state = _last_chunk(state, q, v, matrix, scalar, out, rest, stride_x,
                                HK, HV, DK, DV, BV, 32, not LEAF)  # fmt: skip
        else:
            state = _last_chunk(state, q, v, matrix, scalar, out, rest, stride_x,
                                HK, HV, DK, DV, BV, 16, not LEAF)  # fmt: skip
        if not LEAF:
            held = -1
            base = (tl.load(slot_ptr + seg).to(tl.int64) * HV + head) * (DV * DK)
            tl.store(state_ptr + base + inside, state)
