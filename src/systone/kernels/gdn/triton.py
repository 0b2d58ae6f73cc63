"""The gated delta rule on a GPU: chunk work in one launch, then one scan per inner depth and one
for all leaves. Signature of `reference`; `scratch` keeps a pass free of allocations.

T tokens, Hk/Hv key/value heads, Dk = Dv = 128 their width. bf16 in and out, FP32 states.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from systone.kernels.config import table_of
from systone.kernels.gdn.chunk_kernel import gdn_chunk_kernel
from systone.kernels.gdn.reference import L2_EPS
from systone.kernels.gdn.scan_kernel import gdn_scan_kernel
from systone.kernels.work import CHUNKS, WorkTables

CHUNK_PROGRAMS_PER_SM = 4
CHUNK_OPTIONS = {"num_warps": 4}


@dataclass(frozen=True, slots=True, eq=False)
class GdnScratch:
    """What the chunk kernel leaves for the scans: unit queries and keys fp16 [T, 2, Hk, Dk],
    matrices fp16 [T, Hv, 2, 64], scalars FP32 [T, Hv, 4]; `blocks` FP32 [programs, 64, 16] is its
    own. Needs no clearing."""

    units: Tensor
    matrices: Tensor
    scalars: Tensor
    blocks: Tensor

    @classmethod
    def empty(
        cls, tokens: int, key_heads: int, value_heads: int, device: torch.device
    ) -> GdnScratch:
        half = {"dtype": torch.float16, "device": device}
        wide = {"dtype": torch.float32, "device": device}
        return cls(
            torch.empty(tokens, 2, key_heads, 128, **half),
            torch.empty(tokens, value_heads, 2, 64, **half),
            torch.empty(tokens, value_heads, 4, **wide),
            torch.empty(_chunk_programs(device), 64, 16, **wide),
        )

    def rows(self, tokens: int) -> GdnScratch:
        """The first `tokens` rows, the program scratch whole."""
        return GdnScratch(
            self.units[:tokens], self.matrices[:tokens], self.scalars[:tokens], self.blocks
        )

    @property
    def num_bytes(self) -> int:
        tensors = (self.units, self.matrices, self.scalars, self.blocks)
        return sum(t.numel() * t.element_size() for t in tensors)


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
) -> Tensor:
    """See `reference.gated_delta_rule`. `states` holds [Dv, Dk] transposes: it is scratch."""
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
        scratch = GdnScratch.empty(tokens, num_key_heads, heads, qkv.device)
    assert states.is_contiguous()
    assert out.is_contiguous()
    config, processors = table_of(qkv.device)

    gdn_chunk_kernel[(_chunk_programs(qkv.device),)](
        qkv, a, b, A_log, dt_bias,
        scratch.units, scratch.matrices, scratch.scalars, scratch.blocks,
        tables.counts, tables.chunk_start, tables.chunk_len, tables.chunk_tile,
        qkv.stride(0), a.stride(0), b.stride(0), key_dim**-0.5, L2_EPS,
        COUNT=CHUNKS, HK=num_key_heads, HV=heads, DK=key_dim, **CHUNK_OPTIONS,
    )  # fmt: skip

    block = config.gdn_value_block
    lanes = heads * (value_dim // block)
    tiles = (scratch.units, qkv, scratch.matrices, out)
    if config.descriptors:
        tiles = (
            TensorDescriptor.from_tensor(scratch.units.flatten(1), [64, key_dim]),
            TensorDescriptor.from_tensor(qkv, [64, block]),
            TensorDescriptor.from_tensor(scratch.matrices.flatten(1, 2), [64, 1, 64]),
            TensorDescriptor.from_tensor(out.flatten(1), [64, block]),
        )
    for launch in tables.scans:
        crowd = config.gdn_programs_per_sm if launch.long else config.gdn_short_programs_per_sm
        parts = max(1, crowd * processors // lanes)
        gdn_scan_kernel[(lanes * parts,)](
            *tiles, scratch.units, qkv, scratch.matrices, scratch.scalars, states, out,
            tables.scan_ptr, launch.range_at, tables.scan_entries, qkv.stride(0),
            HK=num_key_heads, HV=heads, DK=key_dim, DV=value_dim, BV=block,
            LEAF=launch.leaf, LONG=launch.long, STAGES=config.gdn_stages,
            DESCRIPTORS=config.descriptors, num_warps=4,
        )  # fmt: skip
    return out


def _chunk_programs(device: torch.device) -> int:
    return CHUNK_PROGRAMS_PER_SM * table_of(device)[1]
