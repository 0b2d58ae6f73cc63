"""The gated delta rule on a GPU: chunk work in one launch, then the scans that the
pass tables ask for. Signature of `reference`; `scratch` keeps a pass free of allocations.

T tokens, Hk/Hv key/value heads, Dk = Dv = 128 their width. bf16 in and out, FP32 states.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from systone.kernels.config import table_of
from systone.kernels.gdn import hopper
from systone.kernels.gdn.chunk_kernel import gdn_chunk_kernel
from systone.kernels.gdn.reference import L2_EPS
from systone.kernels.gdn.scan_kernel import gdn_scan_kernel
from systone.kernels.gdn.scratch import GdnScratch, chunk_programs, head_room
from systone.kernels.gdn.unit_kernel import gdn_unit_kernel
from systone.kernels.work import CHUNKS, WorkTables

CHUNK_OPTIONS = {"num_warps": 4}
TRY_STAGES = 2  # of a scan over a whole try: a multiprocessor has room for two of its programs


def gated_delta_rule(
    qkv: Tensor,
    b: Tensor,
    a: Tensor,
    A_log: Tensor,
    dt_bias: Tensor,
    tables: WorkTables,
    *,
    num_key_heads: int,
    key_dim: int,
    value_dim: int,
    states: Tensor | None = None,
    out: Tensor | None = None,
    scratch: GdnScratch | None = None,
    units_ready: bool = False,
) -> Tensor:
    """See `reference.gated_delta_rule`. `states` holds [Dv, Dk] transposes: it is scratch.
    `units_ready`: the convolution has left unit queries and keys in `scratch`; those columns of
    qkv are not read then."""
    assert qkv.dtype == torch.bfloat16
    assert qkv.stride(1) == 1
    assert a.stride(1) == 1
    assert b.stride(1) == 1
    assert key_dim == value_dim == 128, f"heads of {key_dim} and {value_dim}; kernels are for 128"
    tokens, heads = b.shape
    if states is None:
        shape = (max(tables.num_states, 1), heads, key_dim, value_dim)
        states = torch.empty(shape, dtype=torch.float32, device=qkv.device)
    if out is None:
        out = torch.empty(tokens, heads, value_dim, dtype=qkv.dtype, device=qkv.device)
    if scratch is None:
        scratch = GdnScratch.empty(tokens, states.shape[0], num_key_heads, heads, qkv.device)
    assert states.is_contiguous()
    assert out.is_contiguous()
    assert scratch.flags.shape[0] >= states.shape[0]
    if not units_ready:
        _units(qkv, scratch, num_key_heads)
    shared = (scratch, out, tables, num_key_heads, key_dim**-0.5)
    own = table_of(qkv.device)[0].hopper_gdn
    chunks, scan = (hopper.chunks, hopper.scan) if own else (_chunks, _scan)
    chunks(b, a, A_log, dt_bias, *shared)
    scan(qkv, states, *shared)
    return out


def _units(qkv: Tensor, scratch: GdnScratch, key_heads: int) -> None:
    heads = 2 * key_heads
    gdn_unit_kernel[(qkv.shape[0],)](
        qkv, scratch.units, qkv.stride(0), L2_EPS,
        HEADS=heads, ROWS=triton.next_power_of_2(heads), DK=128, num_warps=4,
    )  # fmt: skip


def _chunks(
    b: Tensor, a: Tensor, A_log: Tensor, dt_bias: Tensor, scratch: GdnScratch,
    out: Tensor, tables: WorkTables, key_heads: int, scale: float,
) -> None:  # fmt: skip
    heads, growth = out.shape[1], scratch.growth
    gdn_chunk_kernel[(chunk_programs(out.device),)](
        a, b, A_log, dt_bias, scratch.units, scratch.matrices, growth, scratch.blocks,
        tables.counts, tables.chunk_start, tables.chunk_len, tables.chunk_tile,
        a.stride(0), b.stride(0), growth.stride(0), scale,
        COUNT=CHUNKS, HK=key_heads, HV=heads, DK=out.shape[2],
        ROOM=head_room(key_heads, heads), **CHUNK_OPTIONS,
    )  # fmt: skip


def _scan(
    qkv: Tensor, states: Tensor, scratch: GdnScratch, out: Tensor, tables: WorkTables,
    key_heads: int, scale: float,
) -> None:  # fmt: skip
    config, processors = table_of(qkv.device)
    heads, width, growth = out.shape[1], out.shape[2], scratch.growth
    block = config.gdn_value_block
    lanes = heads * (width // block)
    tiles = (scratch.units, qkv, scratch.matrices, out)
    if config.descriptors:
        tiles = (
            TensorDescriptor.from_tensor(scratch.units.flatten(1), [64, width]),
            TensorDescriptor.from_tensor(qkv, [64, block]),
            TensorDescriptor.from_tensor(scratch.matrices.flatten(1, 2), [64, 1, 64]),
            TensorDescriptor.from_tensor(out.flatten(1), [64, block]),
        )
    for launch in tables.scans:
        crowded = launch.whole or not launch.long
        crowd = config.gdn_short_programs_per_sm if crowded else config.gdn_programs_per_sm
        stages = min(TRY_STAGES, config.gdn_stages) if launch.whole else config.gdn_stages
        parts = max(1, crowd * processors // lanes)
        gdn_scan_kernel[(lanes * parts,)](
            *tiles, scratch.units, qkv, scratch.matrices, growth, states, out,
            tables.scan_ptr, launch.begin, launch.split, launch.stop, tables.scan_entries,
            qkv.stride(0), growth.stride(0), scale,
            HK=key_heads, HV=heads, DK=width, DV=width, BV=block,
            LEAF=launch.leaf, LONG=launch.long, STAGES=stages,
            DESCRIPTORS=config.descriptors, num_warps=4,
        )  # fmt: skip
