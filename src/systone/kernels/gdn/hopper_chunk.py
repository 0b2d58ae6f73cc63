"""The chunk work of `chunk_kernel` for SM 9.0: the same matrices, with every intermediate in shared
memory or registers.

One program takes (chunk, value heads of a key head) pairs; a tile is always 64 tokens. Rows of a
tile beyond the chunk are a neighbour's, or NaN: products contract over head width only, so they
spoil nothing but their own rows and columns, and those are masked before anything is summed over
tokens.
"""

import triton.language as tl
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from systone.kernels import device

TILE = gl.constexpr(64)
BLOCK = gl.constexpr(16)  # diagonal blocks solved by substitution
WIDTH = gl.constexpr(128)
FLAGS_AT_ONCE = gl.constexpr(128)
LOG2E = gl.constexpr(1.4426950408889634)
TILE_BYTES = gl.constexpr(2 * 64 * 128 * 2)
NARROW = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))
OPERAND = gl.constexpr(gl.DotOperandLayout(0, NARROW.value, 2))
ROW = gl.constexpr(gl.SliceLayout(1, NARROW.value))
COLUMN = gl.constexpr(gl.SliceLayout(0, NARROW.value))
TOKENS = gl.constexpr(gl.BlockedLayout([2], [32], [4], [0]))  # a vector of 64, whole in each warp
STORED = gl.constexpr(gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]))  # [token, token]
# [block, column, row]: a lane owns a column
SOLVED = gl.constexpr(gl.BlockedLayout([1, 1, 16], [2, 16, 1], [4, 1, 1], [2, 1, 0]))
HALF = gl.constexpr(gl.NVMMASharedLayout(128, 16, 2))
PLAIN = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [2, 1, 0]))
VECTORS = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))

thread_barrier = gl.thread_barrier if hasattr(gl, "thread_barrier") else gl.barrier
sigmoid = gluon.jit(device.sigmoid.fn)
softplus = gluon.jit(device.softplus.fn)


@gluon.jit
def _exp2(x):
    """2^x without the care for subnormal results that `exp2` takes."""
    return gl.inline_asm_elementwise(
        "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=gl.float32, is_pure=True, pack=1
    )


@gluon.jit
def _add(x, y):
    return x + y


@gluon.jit
def _store_gates(
    a_ptr, b_ptr, log_ptr, bias_ptr, growth_ptr, decay_at, beta_at, fade_at, length,
    stride_a, stride_b,
):  # fmt: skip
    """Vectors [64] of one value head: summed log2 decays, strengths beta (0 beyond the chunk) and
    e^(G_n - G), G the summed log decays; e^G to global memory."""
    i = gl.arange(0, TILE, layout=TOKENS)
    valid = i < length
    a = gl.load(a_ptr + i * stride_a, mask=valid, other=0.0).to(gl.float32)
    b = gl.load(b_ptr + i * stride_b, mask=valid, other=0.0)
    rate = gl.exp(gl.load(log_ptr).to(gl.float32))
    bias = gl.load(bias_ptr).to(gl.float32)
    beta = sigmoid(b.to(gl.float32)).to(b.dtype).to(gl.float32)
    beta = gl.where(valid, beta, 0.0)
    decay = gl.where(valid, -rate * softplus(a + bias), 0.0)
    decay = gl.associative_scan(decay, 0, _add)
    total = gl.sum(gl.where(i == TILE - 1, decay, 0.0), axis=0)
    gl.store(growth_ptr + i, gl.exp(decay), mask=valid)
    decay_at.store(decay * LOG2E)
    beta_at.store(beta)
    fade_at.store(gl.exp(total - decay))


@gluon.jit
def _clear_flags(flag_ptr, flags):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.arange(0, FLAGS_AT_ONCE, layout=layout)
    clear = gl.zeros([FLAGS_AT_ONCE], gl.int32, layout)
    step = gl.num_programs(0) * FLAGS_AT_ONCE
    for first in range(gl.program_id(0) * FLAGS_AT_ONCE, flags, step):
        gl.store(flag_ptr + first + i, clear, mask=first + i < flags)


@gluon.jit
def _solve_blocks(blocks, COUNT: gl.constexpr):
    """Inverses of I + L of the strictly lower L in `blocks` [COUNT, 16, 16], in place, by
    substitution, row after row: a lane owns a column and meets every row by a broadcast load."""
    m = gl.arange(0, BLOCK, layout=gl.SliceLayout(0, gl.SliceLayout(1, SOLVED)))[None, None, :]
    start = gl.arange(0, BLOCK, layout=gl.SliceLayout(0, gl.SliceLayout(2, SOLVED)))
    solved = gl.zeros([COUNT, BLOCK, BLOCK], gl.float32, SOLVED)
    for row in gl.static_range(0, 16):
        value = gl.zeros([COUNT, BLOCK], gl.float32, gl.SliceLayout(2, SOLVED))
        value = value + gl.where(start == row, 1.0, 0.0)[None, :]
        if row > 0:
            met = blocks.slice(row, 1, dim=1).load(SOLVED)
            value -= gl.sum(met * solved, axis=2)
        solved = gl.where(m == row, gl.expand_dims(value, 2), solved)
    thread_barrier()
    blocks.store(gl.permute(solved, (0, 2, 1)))


@gluon.jit
def _join(inverse, lower, kept, below, other):
    """`inverse` of (I + lower)'s diagonal blocks -> of blocks twice as wide; `kept`: where `lower`
    joins two of them. `below`, `other`: scratch tiles."""
    below.store(gl.where(kept, lower, 0.0).to(gl.float16))
    half = inverse.to(gl.float16)
    other.store(half)
    fence_async_shared()
    left = gl.convert_layout(half, OPERAND)
    empty = gl.zeros([TILE, TILE], gl.float32, NARROW)
    found = warpgroup_mma(left, below, empty, use_acc=False, is_async=True)
    found = warpgroup_mma_wait(0, deps=[found])
    left = gl.convert_layout(found.to(gl.float16), OPERAND)
    found = warpgroup_mma(left, other, empty, use_acc=False, is_async=True)
    found = warpgroup_mma_wait(0, deps=[found])
    return inverse - found


@gluon.jit(do_not_specialize=["flags", "stride_a", "stride_b", "stride_growth"])
def gdn_hopper_chunk_kernel(
    unit_tiles, a_ptr, b_ptr, log_ptr, bias_ptr, matrix_ptr, growth_ptr,
    count_ptr, start_ptr, length_ptr, flag_ptr, flags, stride_a, stride_b, stride_growth, scale,
    COUNT: gl.constexpr, HK: gl.constexpr, HV: gl.constexpr, GROUP: gl.constexpr,
    ROOM: gl.constexpr,
):  # fmt: skip
    """Arguments of `gdn_chunk_kernel`, unit rows as a descriptor of [64, 128] tiles; a program
    works for `GROUP` value heads of a key head at a time, ROOM that as a power of two. Clears the
    flags of the scan that follows."""
    UNITS: gl.constexpr = HV // GROUP  # of work, in a chunk
    TILES: gl.constexpr = 4 if GROUP < 3 else GROUP + 2
    # queries and keys are done with before tiles in their place are written, blocks before `below`
    # and `other` are
    tiles = gl.allocate_shared_memory(gl.float16, [TILES, TILE, TILE], HALF)
    staged = tiles._reinterpret(gl.float16, [2, TILE, WIDTH], HALF)
    below = tiles.index(0)
    other = tiles.index(1)
    inners = gl.allocate_shared_memory(gl.float16, [GROUP, TILE, TILE], HALF)
    blocks = tiles._reinterpret(gl.float32, [ROOM * 4, BLOCK, BLOCK], PLAIN)
    vectors = gl.allocate_shared_memory(gl.float32, [3 * GROUP, TILE], VECTORS)
    come = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(come, count=1)
    fence_async_shared()
    i = gl.arange(0, TILE, layout=ROW)[:, None]
    j = gl.arange(0, TILE, layout=COLUMN)[None, :]
    own = (i // BLOCK) == (j // BLOCK)
    pairs = (i // (2 * BLOCK)) == (j // (2 * BLOCK))
    probe: gl.constexpr = gl.reshape(
        gl.zeros([TILE, TILE], gl.float32, NARROW), [TILE, 4, BLOCK]
    ).type.layout
    rows: gl.constexpr = gl.SliceLayout(1, probe)
    cut: gl.constexpr = gl.reshape(
        gl.zeros([TILE, BLOCK], gl.float32, rows), [4, BLOCK, BLOCK]
    ).type.layout
    _clear_flags(flag_ptr, flags)
    items = gl.load(count_ptr + COUNT) * UNITS
    phase = 0
    for item in tl.range(gl.program_id(0), items, gl.num_programs(0), disable_licm=True):
        chunk = item // UNITS
        head = item % UNITS * GROUP
        key = head // (HV // HK)
        start = gl.load(start_ptr + chunk)
        length = gl.load(length_ptr + chunk)
        first = start.to(gl.int64)
        thread_barrier()  # the last item's reads of the tiles
        mbarrier.expect(come, TILE_BYTES)
        tma.async_copy_global_to_shared(unit_tiles, [start, key * WIDTH], come, staged.index(0))
        tma.async_copy_global_to_shared(
            unit_tiles, [start, (HK + key) * WIDTH], come, staged.index(1)
        )
        for g in gl.static_range(GROUP):
            _store_gates(
                a_ptr + first * stride_a + head + g, b_ptr + first * stride_b + head + g,
                log_ptr + head + g, bias_ptr + head + g,
                growth_ptr + (head + g) * stride_growth + first,
                vectors.index(3 * g), vectors.index(1 + 3 * g), vectors.index(2 + 3 * g),
                length, stride_a, stride_b,
            )  # fmt: skip
        mbarrier.wait(come, phase)
        phase ^= 1
        q = staged.index(0)
        k = staged.index(1)
        empty = gl.zeros([TILE, TILE], gl.float32, NARROW)
        alike = warpgroup_mma(k, k.permute((1, 0)), empty, use_acc=False, is_async=True)
        asked = warpgroup_mma(q, k.permute((1, 0)), empty, use_acc=False, is_async=True)
        alike, asked = warpgroup_mma_wait(0, deps=[alike, asked])
        thread_barrier()  # every warp's products are done: their operands may be overwritten
        asked = asked * scale
        reach = gl.where(i < length, i, -1)
        for g in gl.static_range(GROUP):
            decay = vectors.index(3 * g)
            # gaps ahead may overflow: they are masked after the product, as is all beyond the chunk
            pairwise = _exp2(decay.load(ROW)[:, None] - decay.load(COLUMN)[None, :])
            inner = gl.where(reach >= j, asked * pairwise, 0.0)
            inners.index(g).store(inner.to(gl.float16))
            lower = alike * pairwise * vectors.index(1 + 3 * g).load(ROW)[:, None]
            lower = gl.where(reach > j, lower, 0.0)
            tiles.index(2 + g).store(lower.to(gl.float16))
            diagonal = gl.reshape(gl.where(own, lower, 0.0), [TILE, 4, BLOCK])
            diagonal = gl.reshape(gl.sum(diagonal, axis=1), [4, BLOCK, BLOCK])
            blocks.slice(4 * g, 4).store(diagonal)
        _solve_blocks(blocks, ROOM * 4)
        diagonals = ()
        for g in gl.static_range(GROUP):
            diagonal = gl.reshape(blocks.slice(4 * g, 4).load(cut), [TILE, BLOCK])
            diagonals = diagonals + (gl.convert_layout(diagonal, rows),)  # noqa: RUF005
        for g in gl.static_range(GROUP):
            diagonal = gl.expand_dims(diagonals[g], 1)
            spread = gl.zeros([TILE, 4, BLOCK], gl.float32, probe) + diagonal
            spread = gl.convert_layout(gl.reshape(spread, [TILE, TILE]), NARROW)
            inverse = gl.where(own, spread, 0.0)
            lower = tiles.index(2 + g).load(NARROW)
            inverse = _join(inverse, lower, pairs & (i // BLOCK > j // BLOCK), below, other)
            inverse = _join(inverse, lower, (i // (2 * BLOCK)) > (j // (2 * BLOCK)), below, other)
            other.store(inverse.to(gl.float16))
            fence_async_shared()
            inner = warpgroup_mma(inners.index(g), other, empty, use_acc=False, is_async=True)
            beta = vectors.index(1 + 3 * g).load(COLUMN)[None, :]
            delta = inverse * vectors.index(2 + 3 * g).load(ROW)[:, None] * beta
            t = gl.arange(0, TILE, layout=gl.SliceLayout(1, STORED))[:, None]
            s = gl.arange(0, TILE, layout=gl.SliceLayout(0, STORED))[None, :]
            to = matrix_ptr + (first * HV + head + g) * (2 * TILE)
            to = to + t * (HV * 2 * TILE) + s
            below.store(delta.to(gl.float16))
            gl.store(to, below.load(STORED), mask=(t < length) & (s >= 0))
            inner = warpgroup_mma_wait(0, deps=[inner])
            below.store((inner * beta).to(gl.float16))
            gl.store(to + TILE, below.load(STORED), mask=(t < length) & (s >= 0))
        fence_async_shared()  # the next item's queries and keys overwrite the tiles


def hopper_chunk_tiles(units: Tensor) -> TensorDescriptor:
    """Tiles of 64 tokens and one query or key head of unit rows [T, 2, Hk, 128]."""
    return TensorDescriptor.from_tensor(units.flatten(1), [64, 128], HALF.value)
