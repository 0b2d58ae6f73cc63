"""A pass in two parts that can be captured apart: the trunk by token bucket, the tail by read-outs.

The trunk leaves what the tail reads in the arena: the last layer's keys and values (or outputs of
the delta rule), residuals and norms of every row. The tail reads them through tables whose place
depends on neither bucket. T padded tokens, R padded read-outs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from systone.execute.gpu_pass import GpuPass
from systone.kernels.attention import triton as attention
from systone.kernels.gather.triton import gather_rows
from systone.kernels.head.triton import scalar_head
from systone.kernels.norm import triton as norm
from systone.kernels.rope import triton as rope
from systone.kernels.work import WorkTables
from systone.nn.text_weights import AttentionWeights, DeltaWeights


@dataclass(frozen=True, slots=True, eq=False)
class SplitPass(GpuPass):
    """`launch` is `trunk` and `tail` one after the other: the same launches, captured or not."""

    def launch(self, tables: WorkTables) -> Tensor:
        self.trunk(tables)
        return self.tail(tables)

    def trunk(self, tables: WorkTables) -> None:
        """Every layer but the last, and the last one's work on all rows."""
        weights, eps = self.model.stack.weights, self.config.rms_norm_eps
        tokens, hidden = tables.num_tokens, self.config.hidden_size
        residual = self.arena.take("residual", tokens, hidden)
        normed = self.arena.take("normed", tokens, hidden)
        angles = self.arena.take("angles", tokens, self.config.rotary_dim)
        gather_rows(self.angles, tables.positions, out=angles)
        gather_rows(weights.embed, tables.token_ids, out=residual)
        norm.rms_norm(residual, weights.layers[0].input_norm, eps, out=normed)
        for layer, after in zip(weights.layers[:-1], weights.layers[1:], strict=True):
            mixed = self._mix(normed, layer, angles, tables)
            self._finish(mixed, layer, after.input_norm, residual, normed, "")
        last = weights.layers[-1].mixer
        if isinstance(last, AttentionWeights):
            self._keys(normed, last, angles)
        else:
            self._delta(normed, last, tables)

    def tail(self, tables: WorkTables) -> Tensor:
        """The last layer for read-out rows, the final norm and the head: FP32 [R, 1]."""
        layer = self.model.stack.weights.layers[-1]
        rows, hidden = tables.num_readouts, self.config.hidden_size
        every = self.arena.room.tokens
        chosen = self.arena.take("last_normed", rows, hidden)
        kept = self.arena.take("last_residual", rows, hidden)
        gather_rows(self.arena.take("residual", every, hidden), tables.readout_token, out=kept)
        if isinstance(layer.mixer, AttentionWeights):
            normed = self.arena.take("normed", every, hidden)
            gather_rows(normed, tables.readout_token, out=chosen)
            mixed = self._attend_tail(chosen, layer.mixer, tables)
        else:
            mixed = self._delta_tail(layer.mixer, tables)
        self._finish(mixed, layer, self.model.stack.weights.norm, kept, chosen, "last_")
        scores = self.arena.scores[:rows]
        return scalar_head(chosen, self.model.head_weight, self.model.head_bias, out=scores)

    def _keys(self, normed: Tensor, weights: AttentionWeights, angles: Tensor) -> None:
        """The last layer's keys into `middle`, its values beside raw keys in `wide`."""
        queries = 2 * self.config.num_heads * self.config.head_dim
        width = weights.in_proj.shape[0] - queries
        projected = self.arena.take("wide", normed.shape[0], width)
        self.products.linear(normed, weights.in_proj[queries:], projected)
        k, _ = self._split_keys(projected)
        cos, sin = angles.chunk(2, dim=1)
        turned = self.arena.take("middle", *k.shape)
        rope.norm_rope(k, weights.k_norm, cos, sin, self.config.rms_norm_eps, out=turned)

    def _attend_tail(self, chosen: Tensor, weights: AttentionWeights, tables: WorkTables) -> Tensor:
        config, eps, rows = self.config, self.config.rms_norm_eps, chosen.shape[0]
        every, queries = self.arena.room.tokens, 2 * config.num_heads * config.head_dim
        keys = self.arena.take("wide", every, weights.in_proj.shape[0] - queries)
        _, v = self._split_keys(keys)
        k = self.arena.take("middle", every, config.num_kv_heads, config.head_dim)
        projected = self.arena.take("last_wide", rows, queries)
        self.products.linear(chosen, weights.in_proj[:queries], projected)
        q, gate = self._split_queries(projected)
        angles = self.arena.take("angles", every, config.rotary_dim)
        turned = self.arena.take("last_angles", rows, config.rotary_dim)
        cos, sin = gather_rows(angles, tables.readout_token, out=turned).chunk(2, dim=1)
        q = rope.norm_rope(
            q, weights.q_norm, cos, sin, eps, out=self.arena.take("last_core", *q.shape)
        )
        mixed = self.arena.take("last_mixed", rows, config.num_heads * config.head_dim)
        return attention.readout_attention(
            q, k, v, gate, tables, scale=config.head_dim**-0.5, out=mixed
        )

    def _delta_tail(self, weights: DeltaWeights, tables: WorkTables) -> Tensor:
        config, rows, every = self.config, tables.num_readouts, self.arena.room.tokens
        heads, values = config.linear_value_heads, config.value_width
        core = self.arena.take("core", every, heads, config.linear_value_dim)
        core = gather_rows(
            core,
            tables.readout_token,
            out=self.arena.take("last_core", rows, heads, config.linear_value_dim),
        )
        projected = self.arena.take("wide", every, weights.in_proj.shape[0])
        _, z, _, _ = torch.split(projected, [config.conv_width, values, heads, heads], dim=-1)
        gate = gather_rows(z, tables.readout_token, out=self.arena.take("last_gate", rows, values))
        mixed = self.arena.take("last_mixed", rows, values)
        return norm.gated_rms_norm(core, gate, weights.norm, config.rms_norm_eps, out=mixed)
