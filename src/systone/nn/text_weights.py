"""The weights of a text stack in the shapes its operators read: fused projections, one dtype.

Built from canonical tensor names (`layers.0.linear_attn.in_proj_qkv.weight`); knows no files.
h hidden, I intermediate, Hq/Hk heads, D head width, C conv channels (q|k|v), V value width.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

import torch
from torch import Tensor

from systone.errors import ConfigError
from systone.nn.config import TextConfig


@dataclass(frozen=True, slots=True, eq=False)
class AttentionWeights:
    """Full attention. `q_proj` keeps the checkpoint's order: per head D query, then D gate rows."""

    in_proj: Tensor  # [2 Hq D + 2 Hk D, h]: query and gate | key | value
    q_norm: Tensor  # [D]
    k_norm: Tensor  # [D]
    out_proj: Tensor  # [h, Hq D]


@dataclass(frozen=True, slots=True, eq=False)
class DeltaWeights:
    """Gated delta rule (linear attention)."""

    in_proj: Tensor  # [C + V + 2 Hv, h]: qkv | z | b | a
    conv: Tensor  # [C, 4]
    A_log: Tensor  # [Hv]
    dt_bias: Tensor  # [Hv]
    norm: Tensor  # [Dv]
    out_proj: Tensor  # [h, V]


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    input_norm: Tensor  # [h]
    mixer: AttentionWeights | DeltaWeights
    post_norm: Tensor  # [h]
    gate_up: Tensor  # [2I, h]: gate | up
    down: Tensor  # [h, I]


@dataclass(frozen=True, slots=True, eq=False)
class TextWeights:
    embed: Tensor  # [vocab, h]
    layers: tuple[LayerWeights, ...]
    norm: Tensor  # [h]


def fuse_text_weights(
    tensors: Mapping[str, Tensor],
    config: TextConfig,
    *,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
    consume: bool = False,
) -> TextWeights:
    """Cast, move and fuse every tensor of the text stack, each read once, layer by layer.

    bf16 casts A_log and the GDN norm too, as a bf16 load by transformers does; FP32 keeps their
    stored values. `consume` takes the tensors out of a mutable mapping while it goes, so that the
    model is never held twice. Raises ConfigError naming a tensor that is missing or misshapen."""
    source = _Source(tensors, dtype, torch.device(device), consume)
    h = config.hidden_size
    embed = source.take("embed_tokens.weight", (config.vocab_size, h))
    layers = tuple(_layer(source, config, i) for i in range(config.num_layers))
    return TextWeights(embed=embed, layers=layers, norm=source.take("norm.weight", (h,)))


@dataclass(frozen=True, slots=True)
class _Source:
    tensors: Mapping[str, Tensor]
    dtype: torch.dtype
    device: torch.device
    consume: bool

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        if name not in self.tensors:
            raise ConfigError(f"weights: {name} is missing")
        tensor = self.tensors[name]
        if tuple(tensor.shape) != shape:
            raise ConfigError(f"weights: {name} has shape {tuple(tensor.shape)}, expected {shape}")
        if self.consume and isinstance(self.tensors, MutableMapping):
            del self.tensors[name]
        return tensor.to(device=self.device, dtype=self.dtype).contiguous()

    def fuse(self, prefix: str, rows: Mapping[str, int], inputs: int) -> Tensor:
        parts = [self.take(f"{prefix}{name}.weight", (n, inputs)) for name, n in rows.items()]
        return torch.cat(parts)


def _layer(source: _Source, config: TextConfig, index: int) -> LayerWeights:
    prefix, h, inner = f"layers.{index}.", config.hidden_size, config.intermediate_size
    return LayerWeights(
        input_norm=source.take(f"{prefix}input_layernorm.weight", (h,)),
        mixer=_mixer(source, config, index),
        post_norm=source.take(f"{prefix}post_attention_layernorm.weight", (h,)),
        gate_up=source.fuse(f"{prefix}mlp.", {"gate_proj": inner, "up_proj": inner}, h),
        down=source.take(f"{prefix}mlp.down_proj.weight", (h, inner)),
    )


def _mixer(source: _Source, config: TextConfig, index: int) -> AttentionWeights | DeltaWeights:
    kind, prefix = config.layer_types[index], f"layers.{index}."
    if kind == "full_attention":
        return _attention(source, config, prefix)
    if kind == "linear_attention":
        return _delta(source, config, prefix)
    raise ConfigError(f"config.json: layer_types[{index}] is {kind!r}")


def _attention(source: _Source, config: TextConfig, prefix: str) -> AttentionWeights:
    prefix, dim = f"{prefix}self_attn.", config.head_dim
    queries, keys = config.num_heads * dim, config.num_kv_heads * dim
    rows = {"q_proj": 2 * queries, "k_proj": keys, "v_proj": keys}
    return AttentionWeights(
        in_proj=source.fuse(prefix, rows, config.hidden_size),
        q_norm=source.take(f"{prefix}q_norm.weight", (dim,)),
        k_norm=source.take(f"{prefix}k_norm.weight", (dim,)),
        out_proj=source.take(f"{prefix}o_proj.weight", (config.hidden_size, queries)),
    )


def _delta(source: _Source, config: TextConfig, prefix: str) -> DeltaWeights:
    prefix, heads, values = (
        f"{prefix}linear_attn.",
        config.linear_value_heads,
        config.value_width,
    )
    rows = {
        "in_proj_qkv": config.conv_width,
        "in_proj_z": values,
        "in_proj_b": heads,
        "in_proj_a": heads,
    }
    taps = (config.conv_width, 1, config.conv_kernel)
    return DeltaWeights(
        in_proj=source.fuse(prefix, rows, config.hidden_size),
        conv=source.take(f"{prefix}conv1d.weight", taps).squeeze(1),
        A_log=source.take(f"{prefix}A_log", (heads,)),
        dt_bias=source.take(f"{prefix}dt_bias", (heads,)),
        norm=source.take(f"{prefix}norm.weight", (config.linear_value_dim,)),
        out_proj=source.take(f"{prefix}out_proj.weight", (config.hidden_size, values)),
    )
