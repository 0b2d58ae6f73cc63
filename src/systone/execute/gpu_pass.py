"""One pass on a GPU as a fixed list of launches into an arena: no allocation, no host round trip.

In two parts that can be captured apart: the trunk by token bucket, the tail by read-outs. The trunk
leaves what the tail reads in the arena, and the tail finds it through the pass's tables.
Rows are padded to a bucket and pad rows are carried along: every operator treats a row alone, and
the ones that know tries read true counts from device memory. T padded tokens, R padded read-outs,
W read-out width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from systone.execute.gpu_arena import MLP_ROWS, Arena
from systone.execute.gpu_gemm import Products
from systone.execute.gpu_head import check_head, read_out
from systone.kernels.attention import triton as attention
from systone.kernels.conv.triton import causal_conv_silu
from systone.kernels.gather.triton import gather_rows
from systone.kernels.gdn.triton import gated_delta_rule
from systone.kernels.norm import triton as norm
from systone.kernels.rope import triton as rope
from systone.kernels.work import WorkTables
from systone.nn.config import TextConfig
from systone.nn.decision import DecisionModel
from systone.nn.text_weights import AttentionWeights, DeltaWeights, LayerWeights


@dataclass(frozen=True, slots=True, eq=False)
class GpuPass:
    """A model's layers over an arena. `angles`: cos | sin of every position, bf16 [P, rotary];
    `taps`: convolution weights [N, 4] stored tap by tap, by the id of the layer's own."""

    model: DecisionModel
    arena: Arena
    products: Products
    angles: Tensor
    taps: Mapping[int, Tensor]

    @classmethod
    def of(cls, model: DecisionModel, arena: Arena, products: Products, angles: Tensor) -> Self:
        mixers = [layer.mixer for layer in model.stack.weights.layers]
        own = [mixer.conv for mixer in mixers if isinstance(mixer, DeltaWeights)]
        taps = {id(weight): weight.t().contiguous().t() for weight in own}
        check_head(model, arena)
        return cls(model, arena, products, angles, taps)

    @property
    def config(self) -> TextConfig:
        return self.model.stack.config

    def launch(self, tables: WorkTables) -> Tensor:
        """Enqueue a pass; FP32 scores [R, W] in the arena, valid once the stream gets there."""
        self.trunk(tables)
        return self.tail(tables)

    def trunk(self, tables: WorkTables) -> None:
        """Every layer but the last, and the last one's work on all rows."""
        self.layers(tables, 0, self.config.num_layers)

    def layers(self, tables: WorkTables, first: int, end: int) -> None:
        """Layers `first` .. `end` - 1 of the trunk. Between two calls a pass is what
        `gpu_arena.SURVIVING` names, so that another one may run there."""
        weights, eps = self.model.stack.weights, self.config.rms_norm_eps
        tokens, hidden = tables.num_tokens, self.config.hidden_size
        residual = self.arena.take("residual", tokens, hidden)
        normed = self.arena.take("normed", tokens, hidden)
        angles = self.arena.take("angles", tokens, self.config.rotary_dim)
        if first == 0:
            gather_rows(self.angles, tables.positions, out=angles)
            gather_rows(weights.embed, tables.token_ids, out=residual)
            norm.rms_norm(residual, weights.layers[0].input_norm, eps, out=normed)
        afters = weights.layers[first + 1 : end + 1]
        for layer, after in zip(weights.layers[first:end], afters, strict=False):
            mixed = self._mix(normed, layer, angles, tables)
            self._finish(mixed, layer, after.input_norm, residual, normed, "")
        if end < self.config.num_layers:
            return
        last = weights.layers[-1].mixer
        if isinstance(last, AttentionWeights):
            self._keys(normed, last, angles)
        else:
            self._delta(normed, last, tables)

    def tail(self, tables: WorkTables) -> Tensor:
        """The last layer for read-out rows, the final norm and the head: FP32 [R, W]."""
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
        return read_out(self.model, chosen, tables, self.arena, scores)

    def _mix(
        self, normed: Tensor, layer: LayerWeights, angles: Tensor, tables: WorkTables
    ) -> Tensor:
        """A token mixer up to its output projection: [T, heads * width]."""
        if isinstance(layer.mixer, AttentionWeights):
            return self._attend(normed, layer.mixer, angles, tables)
        core, z = self._delta(normed, layer.mixer, tables)
        mixed = self.arena.take("mixed", normed.shape[0], self.config.value_width)
        return norm.gated_rms_norm(core, z, layer.mixer.norm, self.config.rms_norm_eps, out=mixed)

    def _finish(
        self, mixed: Tensor, layer: LayerWeights, next_norm: Tensor, residual: Tensor,
        normed: Tensor, part: str,
    ) -> None:  # fmt: skip
        """Output projection, MLP and the norms behind both; `residual` and `normed` are updated."""
        rows, eps, inner = mixed.shape[0], self.config.rms_norm_eps, self.config.intermediate_size
        delta = self.arena.take(f"{part}delta", rows, self.config.hidden_size)
        self.products.linear(mixed, layer.mixer.out_proj, delta)
        norm.add_rms_norm(delta, residual, layer.post_norm, eps, out=normed, residual_out=residual)
        for begin in range(0, rows, MLP_ROWS):
            at = slice(begin, min(begin + MLP_ROWS, rows))
            chunk = at.stop - begin
            gate_up = self.arena.take(f"{part}wide", chunk, 2 * inner)
            active = self.arena.take(f"{part}middle", chunk, inner)
            self.products.activated(normed[at], layer.gate_up, gate_up, active)
            self.products.linear(active, layer.down, delta[at])
        norm.add_rms_norm(delta, residual, next_norm, eps, out=normed, residual_out=residual)

    def _delta(
        self, normed: Tensor, weights: DeltaWeights, tables: WorkTables
    ) -> tuple[Tensor, Tensor]:
        """GDN outputs [T, Hv, Dv] and the gate z [T, V] (a view of the projection)."""
        config, rows = self.config, normed.shape[0]
        heads, values = config.linear_value_heads, config.value_width
        width = weights.in_proj.shape[0]
        projected = self.arena.take("wide", rows, width)
        self.products.linear(normed, weights.in_proj, projected)
        qkv, z, b, a = torch.split(projected, [config.conv_width, values, heads, heads], dim=-1)
        convolved = self.arena.take("middle", rows, config.conv_width)
        scratch = self.arena.scratch(rows)
        causal_conv_silu(
            qkv, self.taps[id(weights.conv)], tables, out=convolved, units=scratch.units.flatten(1)
        )
        core = gated_delta_rule(
            convolved, b, a, weights.A_log, weights.dt_bias, tables,
            num_key_heads=config.linear_key_heads, key_dim=config.linear_key_dim,
            value_dim=config.linear_value_dim, states=self.arena.states,
            out=self.arena.take("core", rows, heads, config.linear_value_dim),
            scratch=scratch, units_ready=True,
        )  # fmt: skip
        return core, z

    def _attend(
        self, normed: Tensor, weights: AttentionWeights, angles: Tensor, tables: WorkTables
    ) -> Tensor:
        config, rows = self.config, normed.shape[0]
        projected = self.arena.take("wide", rows, weights.in_proj.shape[0])
        self.products.linear(normed, weights.in_proj, projected)
        queries = 2 * config.num_heads * config.head_dim
        q, gate = self._split_queries(projected[:, :queries])
        k, v = self._split_keys(projected[:, queries:])
        cos, sin = angles.chunk(2, dim=1)
        q, k = rope.qk_norm_rope(
            q, k, weights.q_norm, weights.k_norm, cos, sin, config.rms_norm_eps,
            q_out=self.arena.take("core", *q.shape), k_out=self.arena.take("middle", *k.shape),
        )  # fmt: skip
        mixed = self.arena.take("mixed", rows, config.num_heads * config.head_dim)
        return attention.trie_attention(
            q, k, v, gate, tables, scale=config.head_dim**-0.5, out=mixed
        )

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

    def _split_queries(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        """Views q and gate [rows, Hq, D]."""
        heads = projected.view(-1, self.config.num_heads, 2, self.config.head_dim)
        return heads[:, :, 0], heads[:, :, 1]

    def _split_keys(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        """Views k and v [rows, Hk, D]."""
        heads = projected.view(-1, 2, self.config.num_kv_heads, self.config.head_dim)
        return heads[:, 0], heads[:, 1]
