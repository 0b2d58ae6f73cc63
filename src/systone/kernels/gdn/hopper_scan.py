"""The recurrence of `scan_kernel` for SM 9.0: one warp fetches chunks ahead, four warps compute.

Same maths, operands and order of sums as `scan_kernel`; products run asynchronously, so that those
no state waits for (q S, Y x) fill the gaps of the chain k S -> x -> Z x -> S'. The ring of chunks
runs on over the entries of a program: the next segment is on its way before the last one is done.

Tiles come by the tensor memory engine and know no segment border. What lies beyond a segment's end
is a neighbour's, or NaN: it is masked in registers, or (keys, which meet the state) cleared.
"""

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

from systone.kernels.gdn.hopper_chunk import thread_barrier
from systone.kernels.gdn.hopper_run import (
    await_flag,
    load_entry,
    program_run,
    release_flag,
)

CHUNK = gl.constexpr(64)
WIDTH = gl.constexpr(128)  # of keys; of values a program owns BLOCK
BLOCK = gl.constexpr(64)
CHUNK_BYTES = gl.constexpr(2 * 64 * 128 * 2 + 3 * 64 * 64 * 2)
VALUE_SCALE = gl.constexpr(2.0**-5)
OUTPUT_SCALE = gl.constexpr(2.0**5)
VECTOR = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))
NARROW = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))
WIDE = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16]))
ROWS = gl.constexpr(gl.BlockedLayout([1, 8], [2, 16], [4, 1], [1, 0]))  # of keys
OUTPUT = gl.constexpr(gl.BlockedLayout([8, 1], [8, 4], [1, 4], [0, 1]))  # [value, token]


@gluon.jit
def _growth(growth_ptr, row, length):
    """For the one fetching warp: e^G of the chunk at flat token `row`; zero from `length` on.

    Not by a descriptor: one over the gates trapped (illegal instruction, driver 580; suspected are
    tiles across the end of so small a table). And `length` has to be read here: as a bound of the
    loop alone Triton 3.6 takes its loop-carried value for dead and keeps the first entry's."""
    i = gl.arange(0, CHUNK, layout=gl.BlockedLayout([2], [32], [1], [0]))
    return gl.load(growth_ptr + row + i, mask=i < length, other=0.0)


@gluon.jit
def _fetch(
    ring, ready, unit_tiles, v_tiles, matrix_tiles, growth, count, row, head, e0,
    HK: gl.constexpr, HV: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Starts the copies of the chunk at flat token `row` into its place of the ring."""
    q_ring, k_ring, v_ring, z_ring, y_ring, g_ring = ring
    key = head // (HV // HK) * WIDTH
    value = 2 * HK * WIDTH + head * WIDTH + e0
    matrix = head * (2 * CHUNK)
    slot = count % STAGES
    come = ready.index(slot)
    g_ring.index(slot).store(growth)
    thread_barrier()
    mbarrier.expect(come, CHUNK_BYTES)
    tma.async_copy_global_to_shared(unit_tiles, [row, HK * WIDTH + key], come, k_ring.index(slot))
    tma.async_copy_global_to_shared(unit_tiles, [row, key], come, q_ring.index(slot))
    tma.async_copy_global_to_shared(v_tiles, [row, value], come, v_ring.index(slot))
    tma.async_copy_global_to_shared(matrix_tiles, [row, matrix], come, z_ring.index(slot))
    tma.async_copy_global_to_shared(matrix_tiles, [row, matrix + CHUNK], come, y_ring.index(slot))


@gluon.jit
def _produce(
    ring, ready, free, unit_tiles, v_tiles, matrix_tiles, growth_ptr, entry_ptr, run, turns,
    head, e0, HK: gl.constexpr, HV: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Fetches every chunk of the entries in order, as far ahead as the ring allows."""
    count = 0
    first, length, _, _ = load_entry(entry_ptr, run, 0, turns)
    for turn in range(0, turns):
        next_first, next_length, _, _ = load_entry(entry_ptr, run, turn + 1, turns)
        for c in range(0, (length + CHUNK - 1) // CHUNK):
            row = first + c * CHUNK
            growth = _growth(growth_ptr, row, length - c * CHUNK)
            mbarrier.wait(free.index(count % STAGES), (count // STAGES & 1) ^ 1)
            _fetch(ring, ready, unit_tiles, v_tiles, matrix_tiles, growth, count, row,
                   head, e0, HK, HV, STAGES)  # fmt: skip
            count += 1
        first = next_first
        length = next_length


@gluon.jit
def _clear_keys(keys, length):
    """Zeroes the rows of `keys` beyond `length`: zero deltas must not meet NaN."""
    i = gl.arange(0, CHUNK, layout=gl.SliceLayout(1, ROWS))
    kept = gl.where((i < length)[:, None], keys.load(ROWS), 0.0)
    keys.store(kept)
    fence_async_shared()


@gluon.jit
def _step(
    state, ring, ready, free, out_tile, out_tiles, out_ptr, growth_ptr, count, row, length,
    head, e0, scale, HV: gl.constexpr, STAGES: gl.constexpr, FULL: gl.constexpr,
    UPDATE: gl.constexpr,
):  # fmt: skip
    """One chunk from flat token `row` on. state [BLOCK, WIDTH] -> state after it."""
    q_ring, k_ring, v_ring, z_ring, y_ring, g_ring = ring
    slot = count % STAGES
    k = k_ring.index(slot)
    if UPDATE:
        total = gl.load(growth_ptr + row + (length - 1))
    half = gl.convert_layout(state.to(gl.float16), gl.DotOperandLayout(0, NARROW, 2))
    empty = gl.zeros([BLOCK, CHUNK], gl.float32, NARROW)
    mbarrier.wait(ready.index(slot), count // STAGES & 1)
    if UPDATE and not FULL:
        _clear_keys(k, length)
    held = warpgroup_mma(half, k.permute((1, 0)), empty, use_acc=False, is_async=True)
    inner = warpgroup_mma(
        half, q_ring.index(slot).permute((1, 0)), empty, use_acc=False, is_async=True
    )
    v = v_ring.index(slot).permute((1, 0)).load(NARROW).to(gl.float32) * VALUE_SCALE
    growth = g_ring.index(slot).load(gl.SliceLayout(0, NARROW))[None, :]
    held = warpgroup_mma_wait(1, deps=[held])
    fresh = v - held * growth
    i = gl.arange(0, CHUNK, layout=gl.SliceLayout(0, NARROW))
    if not FULL:
        fresh = gl.where((i < length)[None, :], fresh, 0.0)
    fresh = gl.convert_layout(fresh.to(gl.float16), gl.DotOperandLayout(0, NARROW, 2))
    y = y_ring.index(slot).permute((1, 0))
    if UPDATE:
        z = z_ring.index(slot).permute((1, 0))
        delta = warpgroup_mma(fresh, z, empty, use_acc=False, is_async=True)
        inner = warpgroup_mma_wait(1, deps=[inner])
        inner = warpgroup_mma(fresh, y, inner * (growth * scale), is_async=True)
        delta = warpgroup_mma_wait(1, deps=[delta])
        if not FULL:
            delta = gl.where((i < length)[None, :], delta, 0.0)
        delta = gl.convert_layout(delta.to(gl.float16), gl.DotOperandLayout(0, WIDE, 2))
        state = warpgroup_mma(delta, k, state * total, is_async=True)
        inner = warpgroup_mma_wait(1, deps=[inner])
    else:
        inner = warpgroup_mma_wait(0, deps=[inner])
        inner = warpgroup_mma(fresh, y, inner * (growth * scale), is_async=True)
        inner = warpgroup_mma_wait(0, deps=[inner])
    result = (inner * OUTPUT_SCALE).to(out_ptr.dtype.element_ty)
    if FULL:
        tma.store_wait(0)
        out_tile.permute((1, 0)).store(result)
        fence_async_shared()
        tma.async_copy_shared_to_global(out_tiles, [row, head * WIDTH + e0], out_tile)
    if UPDATE:
        state = warpgroup_mma_wait(0, deps=[state])
    mbarrier.arrive(free.index(slot))
    if not FULL:
        result = gl.convert_layout(result, OUTPUT)
        i = gl.arange(0, CHUNK, layout=gl.SliceLayout(0, OUTPUT))
        e = gl.arange(0, BLOCK, layout=gl.SliceLayout(1, OUTPUT))
        to = out_ptr + (row.to(gl.int64) * HV + head) * WIDTH + e0
        to = to + i[None, :] * (HV * WIDTH) + e[:, None]
        gl.store(to, result, mask=(i < length)[None, :])
    return state


@gluon.jit
def _consume(
    ring, ready, free, out_tile, out_tiles, growth_ptr, state_ptr, flag_ptr, out_ptr, entry_ptr,
    run, turns, flags, head, lane, e0, scale, HV: gl.constexpr, LEAVES: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    e = gl.arange(0, BLOCK, layout=gl.SliceLayout(1, WIDE))
    d = gl.arange(0, WIDTH, layout=gl.SliceLayout(0, WIDE))
    inside = (e0 + e)[:, None] * WIDTH + d[None, :]
    state = gl.zeros([BLOCK, WIDTH], gl.float32, WIDE)
    held = -1  # the slot whose state `state` is
    count = 0
    row, length, parent, own = load_entry(entry_ptr, run, 0, turns)
    for turn in range(0, turns):
        then = load_entry(entry_ptr, run, turn + 1, turns)
        if (parent != held) | (parent < 0):
            if not LEAVES:
                needed = (parent >= 0) & (flags != 0)
                await_flag(flag_ptr + parent * (HV * (WIDTH // BLOCK)) + lane, needed)
            base = (gl.maximum(parent, 0).to(gl.int64) * HV + head) * (WIDTH * WIDTH)
            known = (inside >= 0) & (parent >= 0)
            state = gl.load(state_ptr + base + inside, mask=known, other=0.0)
        whole = length // CHUNK
        for _ in range(0, whole):
            state = _step(state, ring, ready, free, out_tile, out_tiles, out_ptr, growth_ptr,
                          count, row, CHUNK, head, e0, scale, HV, STAGES,
                          True, True)  # fmt: skip
            row += CHUNK
            count += 1
        rest = length % CHUNK
        if rest > 0:
            if own < 0:
                state = _step(state, ring, ready, free, out_tile, out_tiles, out_ptr, growth_ptr,
                              count, row, rest, head, e0, scale, HV, STAGES,
                              False, False)  # fmt: skip
            elif not LEAVES:
                state = _step(state, ring, ready, free, out_tile, out_tiles, out_ptr, growth_ptr,
                              count, row, rest, head, e0, scale, HV, STAGES,
                              False, True)  # fmt: skip
            count += 1
        # a leaf of one chunk left the parent's state as it was: so a brother may begin at once
        held = gl.where(own >= 0, own, gl.where(whole > 0, -1, parent))
        if not LEAVES:  # noqa: SIM102 - decided when compiled
            if own >= 0:
                base = (own.to(gl.int64) * HV + head) * (WIDTH * WIDTH)
                gl.store(state_ptr + base + inside, state)
                thread_barrier()  # the program's other threads may read it next
                if flags != 0:
                    release_flag(flag_ptr + own * (HV * (WIDTH // BLOCK)) + lane)
        row, length, parent, own = then
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["begin_at", "split_at", "stop_at", "flags", "stride_growth"])
def gdn_hopper_scan_kernel(
    unit_tiles, v_tiles, matrix_tiles, out_tiles,
    growth_ptr, state_ptr, flag_ptr, out_ptr, range_ptr, begin_at, split_at, stop_at, flags,
    entry_ptr, stride_growth, scale,
    HK: gl.constexpr, HV: gl.constexpr, LEAVES: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Arrays of `gdn_scan_kernel`; a program owns one (head, block of values) and its run of
    entries: all from place `begin_at` to `split_at`, its share of each place from there to
    `stop_at`, of which there are `PLACES` at most.

    `LEAVES`: no entry leaves a state. `flags`: not 0 if a state may come from another program of
    this launch, which sets flags [slot, lane] once it is stored; they are clear before. Neither
    depths nor places decide a variant: any try runs with what a start has compiled."""
    BLOCKS: gl.constexpr = WIDTH // BLOCK
    lane = gl.program_id(0) % (HV * BLOCKS)
    part = gl.program_id(0) // (HV * BLOCKS)
    parts = gl.num_programs(0) // (HV * BLOCKS)
    head = lane // BLOCKS
    e0 = lane % BLOCKS * BLOCK
    run, turns = program_run(range_ptr, begin_at, split_at, stop_at, part, parts)

    q_ring = gl.allocate_shared_memory(gl.float16, [STAGES, CHUNK, WIDTH], unit_tiles.layout)
    k_ring = gl.allocate_shared_memory(gl.float16, [STAGES, CHUNK, WIDTH], unit_tiles.layout)
    v_ring = gl.allocate_shared_memory(v_tiles.dtype, [STAGES, CHUNK, BLOCK], v_tiles.layout)
    z_ring = gl.allocate_shared_memory(gl.float16, [STAGES, CHUNK, CHUNK], matrix_tiles.layout)
    y_ring = gl.allocate_shared_memory(gl.float16, [STAGES, CHUNK, CHUNK], matrix_tiles.layout)
    g_ring = gl.allocate_shared_memory(gl.float32, [STAGES, CHUNK], VECTOR)
    out_tile = gl.allocate_shared_memory(out_tiles.dtype, [CHUNK, BLOCK], out_tiles.layout)
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(STAGES):
        mbarrier.init(ready.index(slot), count=1)
        mbarrier.init(free.index(slot), count=1)
    ring = (q_ring, k_ring, v_ring, z_ring, y_ring, g_ring)
    fence_async_shared()
    growth = growth_ptr + head * stride_growth
    gl.warp_specialize(
        [
            (_consume, (ring, ready, free, out_tile, out_tiles, growth, state_ptr, flag_ptr,
                        out_ptr, entry_ptr, run, turns, flags, head, lane, e0, scale, HV, LEAVES,
                        STAGES)),
            (_produce, (ring, ready, free, unit_tiles, v_tiles, matrix_tiles, growth, entry_ptr,
                        run, turns, head, e0, HK, HV, STAGES)),
        ],
        [1],
        [24],
    )  # fmt: skip


def hopper_scan_tiles(
    units: Tensor, qkv: Tensor, matrices: Tensor, out: Tensor
) -> tuple[TensorDescriptor, ...]:
    """The first arguments of the kernel: a chunk's tile of each array, rows as in `GdnScratch`."""
    half = gl.NVMMASharedLayout(128, 16, 2)
    shapes = ((units.flatten(1), [64, 128], half), (qkv, [64, 64], half),
              (matrices.flatten(1), [64, 64], half), (out.flatten(1), [64, 64], half))  # fmt: skip
    return tuple(TensorDescriptor.from_tensor(*shape) for shape in shapes)
