"""Small kernels whose races are known, to tell what racecheck's reports of ours are worth.

Each hands vectors or tiles from one warp to four others through two places of shared memory. All
are correct by construction but those named `unwaited`, where nobody waits for the hand-over. The
CUDA ones owe nothing to Triton; the Gluon ones have the shape of `kernels/gdn/hopper_scan.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from systone.kernels.gdn.hopper_chunk import thread_barrier

ROUNDS = 6
PLACES = gl.constexpr(2)
WIDTH = gl.constexpr(64)
VECTOR = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))
FETCHED = gl.constexpr(gl.BlockedLayout([2], [32], [1], [0]))
COMPUTED = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
TILE = gl.constexpr(gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]))

# WAY: 0 named barriers, 1 mbarriers one thread arrives at after a barrier of its group, 2 mbarriers
# every thread arrives at, 3 as 1, but nobody waits for the vector
CUDA = r"""
__device__ void arrive(unsigned at) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" :: "r"(at) : "memory");
}
__device__ void await(unsigned at, int phase) {
  asm volatile("{ .reg .pred p;\nagain:\n mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n"
               " @!p bra again; }" :: "r"(at), "r"(phase) : "memory");
}
__device__ void pass(int barrier) {
  asm volatile("bar.arrive %0, 160;" :: "r"(barrier) : "memory");
}
__device__ void meet(int barrier) {
  asm volatile("bar.sync %0, 160;" :: "r"(barrier) : "memory");
}
extern "C" __global__ void NAME(const float* from, float* to, int rounds) {
  __shared__ float ring[2][64];
  __shared__ unsigned long long barriers[4];
  unsigned at = (unsigned)__cvta_generic_to_shared(barriers);
  int thread = threadIdx.x, lane = thread % 32;
  if (thread == 0)
    for (int i = 0; i < 4; i++) {
      int count = WAY == 2 ? (i < 2 ? 32 : 128) : 1;
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at + 8 * i), "r"(count) : "memory");
    }
  __syncthreads();
  for (int i = 0; i < rounds; i++) {
    int place = i % 2, phase = i / 2 & 1;
    unsigned ready = at + 8 * place, unused = at + 16 + 8 * place;
    if (thread < 32) {
      if (WAY == 1 || WAY == 2) await(unused, phase ^ 1);
      else if (WAY == 0 && i > 1) meet(3 + place);
      ring[place][lane] = from[64 * i + lane];
      ring[place][lane + 32] = from[64 * i + lane + 32];
      __syncwarp();
      if (WAY == 0) pass(1 + place);
      else if (WAY == 2 || lane == 0) arrive(ready);
    } else {
      if (WAY == 0) meet(1 + place);
      else if (WAY != 3) await(ready, phase);
      float value = ring[place][(thread - 32) % 64];
      asm volatile("bar.sync 5, 128;" ::: "memory");
      if (WAY == 2 || (WAY && thread == 32)) arrive(unused);
      if (WAY == 0 && i + 2 < rounds) pass(3 + place);
      to[128 * i + thread - 32] = value;
    }
  }
}
"""
WAYS = ("named_barriers", "mbarriers_one_arrival", "mbarriers_all_arrive", "mbarriers_unwaited")


@gluon.jit
def _fetch_vectors(ring, ready, free, from_ptr, rounds, WAIT: gl.constexpr):
    i = gl.arange(0, WIDTH, layout=FETCHED)
    for count in range(0, rounds):
        place = count % PLACES
        value = gl.load(from_ptr + count * WIDTH + i)
        if WAIT:
            mbarrier.wait(free.index(place), (count // PLACES & 1) ^ 1)
        ring.index(place).store(value)
        thread_barrier()
        mbarrier.arrive(ready.index(place))


@gluon.jit
def _use_vectors(ring, ready, free, to_ptr, rounds, WAIT: gl.constexpr):
    i = gl.arange(0, WIDTH, layout=COMPUTED)
    for count in range(0, rounds):
        place = count % PLACES
        if WAIT:
            mbarrier.wait(ready.index(place), count // PLACES & 1)
        value = ring.index(place).load(COMPUTED)
        thread_barrier()
        mbarrier.arrive(free.index(place))
        gl.store(to_ptr + count * WIDTH + i, value)


@gluon.jit
def _barriers():
    ready = gl.allocate_shared_memory(gl.int64, [PLACES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [PLACES, 1], mbarrier.MBarrierLayout())
    for place in gl.static_range(PLACES):
        mbarrier.init(ready.index(place), count=1)
        mbarrier.init(free.index(place), count=1)
    fence_async_shared()
    return ready, free


@gluon.jit
def control_vectors(from_ptr, to_ptr, rounds):
    _vectors(from_ptr, to_ptr, rounds, True)


@gluon.jit
def control_vectors_unwaited(from_ptr, to_ptr, rounds):
    _vectors(from_ptr, to_ptr, rounds, False)


@gluon.jit
def _vectors(from_ptr, to_ptr, rounds, WAIT: gl.constexpr):
    """Vectors by a warp's own stores, as the scan's gates."""
    ring = gl.allocate_shared_memory(gl.float32, [PLACES, WIDTH], VECTOR)
    ready, free = _barriers()
    gl.warp_specialize(
        [(_use_vectors, (ring, ready, free, to_ptr, rounds, WAIT)),
         (_fetch_vectors, (ring, ready, free, from_ptr, rounds, WAIT))], [1], [24],
    )  # fmt: skip


@gluon.jit
def _copy(from_ptr, to_ptr, rounds, LAYOUT: gl.constexpr):
    i = gl.arange(0, WIDTH, layout=LAYOUT)
    for count in range(0, rounds):
        gl.store(to_ptr + count * WIDTH + i, gl.load(from_ptr + count * WIDTH + i))


@gluon.jit
def control_apart(from_ptr, to_ptr, rounds):
    """Two groups of warps that share nothing: what remains is `warp_specialize` itself."""
    half = rounds // 2
    gl.warp_specialize(
        [(_copy, (from_ptr, to_ptr, half, COMPUTED)),
         (_copy, (from_ptr + half * WIDTH, to_ptr + half * WIDTH, rounds - half, FETCHED))],
        [1], [24],
    )  # fmt: skip


@gluon.jit
def _fetch_tiles(ring, ready, free, tiles, rounds, WAIT: gl.constexpr):
    for count in range(0, rounds):
        place = count % PLACES
        if WAIT:
            mbarrier.wait(free.index(place), (count // PLACES & 1) ^ 1)
        else:  # for its own tile: two may not be on their way to one barrier
            mbarrier.wait(ready.index(place), (count // PLACES & 1) ^ 1)
        mbarrier.expect(ready.index(place), WIDTH * WIDTH * 2)
        tma.async_copy_global_to_shared(
            tiles, [count * WIDTH, 0], ready.index(place), ring.index(place)
        )
    for count in range(rounds, rounds + PLACES):  # none may outlive the program
        mbarrier.wait(ready.index(count % PLACES), (count // PLACES & 1) ^ 1)


@gluon.jit
def _use_tiles(ring, ready, free, to_ptr, rounds, WAIT: gl.constexpr):
    row = gl.arange(0, WIDTH, layout=gl.SliceLayout(1, TILE))
    column = gl.arange(0, WIDTH, layout=gl.SliceLayout(0, TILE))
    at = row[:, None] * WIDTH + column[None, :]
    for count in range(0, rounds):
        place = count % PLACES
        if WAIT:
            mbarrier.wait(ready.index(place), count // PLACES & 1)
        value = ring.index(place).load(TILE)
        thread_barrier()
        mbarrier.arrive(free.index(place))
        gl.store(to_ptr + count * WIDTH * WIDTH + at, value)


@gluon.jit
def control_tiles(tiles, to_ptr, rounds):
    _tiles(tiles, to_ptr, rounds, True)


@gluon.jit
def control_tiles_unwaited(tiles, to_ptr, rounds):
    _tiles(tiles, to_ptr, rounds, False)


@gluon.jit
def _tiles(tiles, to_ptr, rounds, WAIT: gl.constexpr):
    """Tiles by the tensor memory engine in place of vectors by a warp's stores."""
    ring = gl.allocate_shared_memory(tiles.dtype, [PLACES, WIDTH, WIDTH], tiles.layout)
    ready, free = _barriers()
    gl.warp_specialize(
        [(_use_tiles, (ring, ready, free, to_ptr, rounds, WAIT)),
         (_fetch_tiles, (ring, ready, free, tiles, rounds, WAIT))], [1], [24],
    )  # fmt: skip


def cuda_controls(device: torch.device) -> Iterator[tuple[str, Tensor, Tensor]]:
    """(name, found, wanted) of every way."""
    from torch.cuda import _compile_kernel

    values = torch.arange(64 * ROUNDS, dtype=torch.float32).to(device)
    wanted = values.view(ROUNDS, 64).cpu().repeat(1, 2)
    for way, name in enumerate(WAYS):
        source = CUDA.replace("NAME", f"control_{name}").replace("WAY", str(way))
        kernel = _compile_kernel(source, f"control_{name}", nvcc_options=["-lineinfo"])
        out = torch.zeros(ROUNDS, 128, device=device)
        kernel(grid=(2, 1, 1), block=(160, 1, 1), args=[values, out, ROUNDS])
        yield name, out.cpu(), wanted


def gluon_controls(device: torch.device) -> Iterator[tuple[str, Tensor, Tensor]]:
    """(name, found, wanted) of every kernel."""
    values = torch.arange(64 * ROUNDS, dtype=torch.float32).view(ROUNDS, 64).to(device)
    tiles = torch.arange(64 * 64 * ROUNDS, dtype=torch.int32).to(torch.int16)
    tiles = tiles.view(torch.bfloat16).view(64 * ROUNDS, 64).to(device)
    layout = gl.NVMMASharedLayout(128, 16, 2)
    described = TensorDescriptor.from_tensor(tiles, [64, 64], layout)
    launches: list[tuple[str, Tensor, Callable[[Tensor], object]]] = [
        ("vectors", values, lambda o: control_vectors[(2,)](values, o, ROUNDS)),
        ("apart", values, lambda o: control_apart[(2,)](values, o, ROUNDS)),
        ("tiles", tiles, lambda o: control_tiles[(2,)](described, o, ROUNDS)),
        ("unwaited vectors", values, lambda o: control_vectors_unwaited[(2,)](values, o, ROUNDS)),
        ("unwaited tiles", tiles, lambda o: control_tiles_unwaited[(2,)](described, o, ROUNDS)),
    ]
    for name, wanted, launch in launches:
        out = torch.zeros_like(wanted)
        launch(out)
        yield name, out.cpu(), wanted.cpu()
