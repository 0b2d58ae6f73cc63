"""The two token mixers of a layer over a pass: full attention and the gated delta rule.

Each has a form for all rows and one for the last layer, whose queries and output projection run
for read-out rows only. Knows no residuals and no MLP. T tokens, R read-outs, h hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from systone.nn.config import TextConfig
from systone.nn.device_tables import DeviceTables
from systone.nn.ops import Ops
from systone.nn.text_weights import AttentionWeights, DeltaWeights


@dataclass(frozen=True, slots=True, eq=False)
class PassContext:
    """What every layer of one pass reads: shapes, operators, tables, cos and sin [T, P]."""

    config: TextConfig
    ops: Ops
    tables: DeviceTables
    cos: Tensor
    sin: Tensor


def mix(x: Tensor, weights: AttentionWeights | DeltaWeights, at: PassContext) -> Tensor:
    """A layer's token mixer on normed rows x [T, h] -> [T, h]."""
    if isinstance(weights, AttentionWeights):
        return _attention(x, weights, at)
    return _delta(x, weights, at, readouts_only=False)


def mix_readouts(x: Tensor, weights: AttentionWeights | DeltaWeights, at: PassContext) -> Tensor:
    """`mix` of the rows at `readout_token` only: x [T, h] -> [R, h]."""
    if isinstance(weights, AttentionWeights):
        return _attention_readouts(x, weights, at)
    return _delta(x, weights, at, readouts_only=True)


def _attention(x: Tensor, weights: AttentionWeights, at: PassContext) -> Tensor:
    config, ops = at.config, at.ops
    queries = 2 * config.num_heads * config.head_dim
    projected = ops.linear(x, weights.in_proj)
    q, gate = _split_gate(projected[:, :queries], config)
    k, v = _split_kv(projected[:, queries:], config)
    q, k = ops.qk_norm_rope(
        q, k, weights.q_norm, weights.k_norm, at.cos, at.sin, config.rms_norm_eps
    )
    scale = config.head_dim**-0.5
    return ops.linear(ops.trie_attention(q, k, v, gate, at.tables, scale=scale), weights.out_proj)


def _attention_readouts(x: Tensor, weights: AttentionWeights, at: PassContext) -> Tensor:
    config, ops, eps = at.config, at.ops, at.config.rms_norm_eps
    queries = 2 * config.num_heads * config.head_dim
    chosen = at.tables.readout_token
    k, v = _split_kv(ops.linear(x, weights.in_proj[queries:]), config)
    k = ops.norm_rope(k, weights.k_norm, at.cos, at.sin, eps)
    rows = ops.linear(ops.gather_rows(x, chosen), weights.in_proj[:queries])
    q, gate = _split_gate(rows, config)
    cos, sin = ops.gather_rows(at.cos, chosen), ops.gather_rows(at.sin, chosen)
    q = ops.norm_rope(q, weights.q_norm, cos, sin, eps)
    scale = config.head_dim**-0.5
    mixed = ops.readout_attention(q, k, v, gate, at.tables, scale=scale)
    return ops.linear(mixed, weights.out_proj)


def _split_gate(projected: Tensor, config: TextConfig) -> tuple[Tensor, Tensor]:
    """Views q and gate [rows, Hq, D] of a query projection [rows, 2 Hq D]."""
    heads = projected.view(-1, config.num_heads, 2, config.head_dim)
    return heads[:, :, 0], heads[:, :, 1]


def _split_kv(projected: Tensor, config: TextConfig) -> tuple[Tensor, Tensor]:
    """Views k and v [rows, Hk, D] of a key/value projection [rows, 2 Hk D]."""
    heads = projected.view(-1, 2, config.num_kv_heads, config.head_dim)
    return heads[:, 0], heads[:, 1]


def _delta(x: Tensor, weights: DeltaWeights, at: PassContext, *, readouts_only: bool) -> Tensor:
    """The recurrence runs over every row either way: read-outs depend on the state before them."""
    config, ops = at.config, at.ops
    heads = config.linear_value_heads
    projected = ops.linear(x, weights.in_proj)
    widths = [config.conv_width, config.value_width, heads, heads]
    qkv, z, b, a = torch.split(projected, widths, dim=-1)
    qkv = ops.causal_conv_silu(qkv, weights.conv, at.tables)
    core = ops.gated_delta_rule(
        qkv,
        b,
        a,
        weights.A_log,
        weights.dt_bias,
        at.tables,
        num_key_heads=config.linear_key_heads,
        key_dim=config.linear_key_dim,
        value_dim=config.linear_value_dim,
    )
    if readouts_only:
        core, z = (ops.gather_rows(rows, at.tables.readout_token) for rows in (core, z))
    gated = ops.gated_rms_norm(core, z, weights.norm, config.rms_norm_eps)
    return ops.linear(gated, weights.out_proj)
