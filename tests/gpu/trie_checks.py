"""Checks of the two operators that know tries, for any device and any head count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from systone.kernels.attention import reference as attention_reference
from systone.kernels.attention import triton as attention
from systone.kernels.gdn import reference as gdn_reference
from systone.kernels.gdn import triton as gdn
from systone.kernels.work import WorkTables
from systone.plan.tables import PassTables
from tests.gpu.cases import Inputs, beyond, nan

DIM = 128


@dataclass(frozen=True)
class GdnCase:
    """GDN inputs of a pass; heads Hk, Hv. Decays span 0.5 .. 0.9995, so that states matter."""

    qkv: Tensor
    b: Tensor
    a: Tensor
    log: Tensor
    bias: Tensor
    key_heads: int

    @classmethod
    def of(
        cls, tables: PassTables, inputs: Inputs, key_heads: int, heads: int, device: torch.device
    ) -> GdnCase:
        width = 2 * key_heads * DIM + heads * DIM
        gates = beyond(inputs.rows(tables, "gates", 2 * heads, device))
        decay = torch.linspace(0.5, 0.9995, heads, device=device)
        return cls(
            beyond(inputs.rows(tables, "qkv", width, device)),
            gates[:, :heads],
            gates[:, heads:],
            torch.log(-torch.log(decay)).bfloat16(),
            torch.full((heads,), 0.5, device=device).bfloat16(),
            key_heads,
        )

    def reference(self, tables: WorkTables) -> Tensor:
        return gdn_reference.gated_delta_rule(*self._args(), tables, **self._sizes())

    def run(self, tables: WorkTables) -> Tensor:
        """The kernels with every piece of scratch NaN-filled."""
        tokens, heads = self.b.shape
        device = self.qkv.device
        scratch = gdn.GdnScratch.empty(tokens, tables.num_states, self.key_heads, heads, device)
        for tensor in (scratch.units, scratch.matrices, scratch.growth, scratch.blocks):
            tensor.fill_(float("nan"))
        scratch.flags.fill_(1)
        return gdn.gated_delta_rule(
            *self._args(),
            tables,
            **self._sizes(),
            states=nan(
                max(tables.num_states, 1), heads, DIM, DIM, dtype=torch.float32, device=device
            ),
            out=nan(tokens, heads, DIM, dtype=torch.bfloat16, device=device),
            scratch=scratch,
        )

    def _args(self) -> tuple[Tensor, ...]:
        return self.qkv, self.b, self.a, self.log, self.bias

    def _sizes(self) -> dict[str, int]:
        return {"num_key_heads": self.key_heads, "key_dim": DIM, "value_dim": DIM}


@dataclass(frozen=True)
class AttentionCase:
    """Attention inputs of a pass: v and gate are views of a fused projection."""

    q: Tensor
    k: Tensor
    v: Tensor
    gate: Tensor

    @classmethod
    def of(
        cls,
        tables: PassTables,
        inputs: Inputs,
        heads: int,
        kv_heads: int,
        device: torch.device,
        dim: int = 256,
    ) -> AttentionCase:
        fused = beyond(inputs.rows(tables, "fused", 2 * (heads + kv_heads) * dim, device))
        q = beyond(inputs.rows(tables, "q", heads * dim, device)).view(-1, heads, dim)
        k = beyond(inputs.rows(tables, "k", kv_heads * dim, device)).view(-1, kv_heads, dim)
        gate = fused[:, : 2 * heads * dim].view(-1, heads, 2, dim)[:, :, 1]
        v = fused[:, 2 * heads * dim :].view(-1, 2, kv_heads, dim)[:, 1]
        return cls(q, k, v, gate)

    def run(self, tables: WorkTables) -> Tensor:
        return self._all(attention.trie_attention, tables)

    def reference(self, tables: WorkTables) -> Tensor:
        return self._all(attention_reference.trie_attention, tables)

    def run_readouts(self, tables: WorkTables) -> Tensor:
        return self._readouts(attention.readout_attention, tables)

    def reference_readouts(self, tables: WorkTables) -> Tensor:
        return self._readouts(attention_reference.readout_attention, tables)

    def _all(self, op: Callable[..., Tensor], tables: WorkTables) -> Tensor:
        out = nan(
            self.q.shape[0],
            self.q.shape[1] * self.q.shape[2],
            dtype=torch.bfloat16,
            device=self.q.device,
        )
        return op(self.q, self.k, self.v, self.gate, tables, scale=self.q.shape[2] ** -0.5, out=out)

    def _readouts(self, op: Callable[..., Tensor], tables: WorkTables) -> Tensor:
        rows = tables.readout_token.long()
        q, gate = self.q[rows].contiguous(), self.gate[rows]
        return op(q, self.k, self.v, gate, tables, scale=self.q.shape[2] ** -0.5)


def row_tokens(tables: PassTables, readout: int) -> list[int]:
    """Flat indices of a row's path, oldest first."""
    seg = int(tables.readout_seg[readout])
    path = [*tables.anc_seg[tables.anc_ptr[seg] : tables.anc_ptr[seg + 1]], seg]
    return [
        i
        for s in path
        for i in range(int(tables.seg_start[s]), int(tables.seg_start[s] + tables.seg_len[s]))
    ]
