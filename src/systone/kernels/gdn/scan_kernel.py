"""The recurrence of the gated delta rule along segments: from a parent's state to outputs, state.

Everything is kept transposed (value axis first), so that the FP32 state stays in registers and is
the left operand of every product; operands are fp16, sums FP32. With S the state at the chunk's
start, unit keys k and queries q, and Z, Y from the chunk kernel:
    x = v - e^G k S,   o = e^G q S Dk^-0.5 + Y x,   S' = e^G_n S + k^T Z x.
All of it is linear in v: values are scaled by 2^-5 on the way in and back on the way out, so that
fp16 holds states up to 2^21 and still resolves 2^-19.
"""

import triton
import triton.language as tl

from systone.kernels.gdn.chunk_kernel import MATRICES, WIDTH

VALUE_SCALE = tl.constexpr(2.0**-5)
OUTPUT_SCALE = tl.constexpr(2.0**5)


@triton.jit
def _chunk(
    state, q, k, v, z, y, growth_ptr, length, scale,
    TILE: tl.constexpr, UPDATE: tl.constexpr,
):  # fmt: skip
    """One chunk of loaded tiles: q, k [TILE, DK], v [TILE, BV], z, y [TILE, TILE]; rows beyond
    `length` are zero. state [BV, DK] -> (state, outputs [BV, TILE])."""
    i = tl.arange(0, TILE)
    growth = tl.load(growth_ptr + i, mask=i < length, other=0.0)
    half = state.to(tl.float16)
    held = tl.dot(half, tl.trans(k))
    fresh = tl.trans(v).to(tl.float32) * VALUE_SCALE - held * growth[None, :]
    fresh = fresh.to(tl.float16)
    if UPDATE:
        delta = tl.dot(fresh, tl.trans(z)).to(tl.float16)
    result = tl.dot(half, tl.trans(q)) * (growth * scale)[None, :]
    result = tl.dot(fresh, tl.trans(y), result) * OUTPUT_SCALE
    if UPDATE:
        state = tl.dot(delta, k, state * tl.load(growth_ptr + length - 1))
    return state, result


@triton.jit
def _last_chunk(
    state, unit_ptr, v_ptr, matrix_ptr, growth_ptr, out_ptr, length, stride_x, scale,
    HK: tl.constexpr, HV: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, BV: tl.constexpr,
    TILE: tl.constexpr, UPDATE: tl.constexpr,
):  # fmt: skip
    """A segment's last chunk: what lies beyond it is a neighbour's, or NaN, and is never read."""
    i = tl.arange(0, TILE)
    d = tl.arange(0, DK)
    e = tl.arange(0, BV)
    inside = (i < length)[:, None]
    at = unit_ptr + i[:, None] * (2 * HK * DK) + d[None, :]
    k = tl.load(at + HK * DK, mask=inside, other=0.0)
    q = tl.load(at, mask=inside, other=0.0)
    v = tl.load(v_ptr + i[:, None] * stride_x + e[None, :], mask=inside, other=0.0)
    at = matrix_ptr + i[:, None] * (HV * MATRICES * WIDTH) + i[None, :]
    z = tl.load(at, mask=inside, other=0.0)
    y = tl.load(at + WIDTH, mask=inside, other=0.0)
    state, result = _chunk(state, q, k, v, z, y, growth_ptr, length, scale, TILE, UPDATE)
    to = out_ptr + i[None, :] * (HV * DV) + e[:, None]
    tl.store(to, result.to(out_ptr.dtype.element_ty), mask=(i < length)[None, :])
    return state


@triton.jit
def _full_chunks(
    state, unit_tiles, v_tiles, matrix_tiles, out_tiles,
    unit_ptr, qkv_ptr, matrix_ptr, growth_ptr, out_ptr, first, chunks, head, e0, stride_x, scale,
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
            k = unit_tiles.load([row, HK * DK + key])
            q = unit_tiles.load([row, key])
            v = v_tiles.load([row, value])
            z = tl.reshape(matrix_tiles.load([row, head * MATRICES, 0]), (64, 64))
            y = tl.reshape(matrix_tiles.load([row, head * MATRICES + 1, 0]), (64, 64))
        else:
            d = tl.arange(0, DK)[None, :]
            x = unit_ptr + at * (2 * HK * DK) + i[:, None] * (2 * HK * DK)
            k = tl.load(x + (HK * DK + key + d))
            q = tl.load(x + (key + d))
            x = qkv_ptr + at * stride_x + i[:, None] * stride_x
            v = tl.load(x + (value + tl.arange(0, BV)[None, :]))
            m = matrix_ptr + (at * HV + head) * (MATRICES * WIDTH)
            m += i[:, None] * (HV * MATRICES * WIDTH) + i[None, :]
            z = tl.load(m)
            y = tl.load(m + WIDTH)
        state, result = _chunk(state, q, k, v, z, y, growth_ptr + at, 64, scale, 64, True)
        result = tl.trans(result.to(out_ptr.dtype.element_ty))
        if DESCRIPTORS:
            out_tiles.store([row, head * DV + e0], result)
        else:
            to = out_ptr + (at * HV + head) * DV + e0
            tl.store(to + i[:, None] * (HV * DV) + tl.arange(0, BV)[None, :], result)
    return state


@triton.jit(do_not_specialize=["begin_at", "split_at", "stop_at", "stride_growth"])
def gdn_scan_kernel(
    unit_tiles, v_tiles, matrix_tiles, out_tiles,
    unit_ptr, qkv_ptr, matrix_ptr, growth_ptr, state_ptr, out_ptr,
    range_ptr, begin_at, split_at, stop_at, entry_ptr, stride_x, stride_growth, scale,
    HK: tl.constexpr, HV: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, BV: tl.constexpr,
    LEAF: tl.constexpr, LONG: tl.constexpr, STAGES: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """A program owns one (head, block of values) and a run of the scan entries range[split_at] ..
    range[stop_at]. Entries range[begin_at] .. range[split_at] are ancestors of those: every program
    that has a run walks them all itself before it, so that none waits for another; what several of
    them write to a state are the same bits. An entry: flat start, length, parent's slot, own slot.

    States are [slots, HV, DV, DK]. A leaf (own slot -1) writes none; with LEAF every entry is one,
    and siblings next to each other in the list share one load of their parent's state as long as it
    is unchanged. Without LONG no entry has more than 64 tokens. `*_tiles`: descriptors of the
    arrays where the device has them."""
    BLOCKS: tl.constexpr = DV // BV
    lane = tl.program_id(0) % (HV * BLOCKS)
    part = tl.program_id(0) // (HV * BLOCKS)
    parts = tl.num_programs(0) // (HV * BLOCKS)
    head = lane // BLOCKS
    growth_ptr += head * stride_growth
    e0 = (lane % BLOCKS) * BV
    begin = tl.load(range_ptr + begin_at)
    split = tl.load(range_ptr + split_at)
    stop = tl.load(range_ptr + stop_at)
    share = tl.cdiv(stop - split, parts)
    own = split + part * share
    last = tl.minimum(own + share, stop)
    shared = split - begin
    turns = tl.where(own < last, shared + last - own, 0)

    d = tl.arange(0, DK)
    e = tl.arange(0, BV)
    inside = (e0 + e)[:, None] * DK + d[None, :]
    state = tl.zeros((BV, DK), dtype=tl.float32)
    held = -1
    for turn in tl.range(0, turns, disable_licm=True):
        n = tl.where(turn < shared, begin + turn, own + turn - shared)
        first = tl.load(entry_ptr + n * 4)
        length = tl.load(entry_ptr + n * 4 + 1)
        parent = tl.load(entry_ptr + n * 4 + 2)
        if (parent != held) | (parent < 0):
            base = (tl.maximum(parent, 0).to(tl.int64) * HV + head) * (DV * DK)
            known = (inside >= 0) & (parent >= 0)
            state = tl.load(state_ptr + base + inside, mask=known, other=0.0)
        held = parent
        at = first.to(tl.int64)
        rest = length
        if LONG:
            whole = (length - 1) // 64
            state = _full_chunks(
                state, unit_tiles, v_tiles, matrix_tiles, out_tiles,
                unit_ptr, qkv_ptr, matrix_ptr, growth_ptr, out_ptr,
                first, whole, head, e0, stride_x, scale, HK, HV, DK, DV, BV, STAGES, DESCRIPTORS,
            )  # fmt: skip
            held = tl.where(whole > 0, -1, parent)
            at += whole * 64
            rest -= whole * 64
        unit = unit_ptr + at * (2 * HK * DK) + head // (HV // HK) * DK
        v = qkv_ptr + at * stride_x + 2 * HK * DK + head * DV + e0
        matrix = matrix_ptr + (at * HV + head) * (MATRICES * WIDTH)
        growth = growth_ptr + at
        out = out_ptr + (at * HV + head) * DV + e0
        # the tile is a function of the segment's own length, as in the planner's `chunk_tile`
        if rest > 32:
            state = _last_chunk(state, unit, v, matrix, growth, out, rest, stride_x, scale,
                                HK, HV, DK, DV, BV, 64, not LEAF)  # fmt: skip
        elif rest > 16:
            state = _last_chunk(state, unit, v, matrix, growth, out, rest, stride_x, scale,
                                HK, HV, DK, DV, BV, 32, not LEAF)  # fmt: skip
        else:
            state = _last_chunk(state, unit, v, matrix, growth, out, rest, stride_x, scale,
                                HK, HV, DK, DV, BV, 16, not LEAF)  # fmt: skip
        if not LEAF:
            slot = tl.load(entry_ptr + n * 4 + 3)
            held = slot
            if slot >= 0:
                base = (slot.to(tl.int64) * HV + head) * (DV * DK)
                tl.store(state_ptr + base + inside, state)
            tl.debug_barrier()  # the program's other threads may read it next
