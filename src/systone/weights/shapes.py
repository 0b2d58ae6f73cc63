"""Which tensors a text backbone has: canonical name -> shape and accepted dtypes.

Owns the table of names the loader, the exporter and the synthesiser share; knows no files and no
torch. Canonical names carry no prefix: "embed_tokens.weight", "layers.0.mlp.up_proj.weight".
dtypes are spelled as safetensors spells them.
"""

from __future__ import annotations

from dataclasses import dataclass

from systone.nn.config import TextConfig

__all__ = ["PREFIXES", "Expected", "attention_layer", "canonical", "text_tensors"]

# Prefixes of text tensors in published checkpoints, longest first; the bare name is the last.
PREFIXES = ("model.language_model.", "model.", "")

_BF16 = ("BF16",)
# The Qwen3.5 series stores A_log and the gated norm's weight as F32, Qwen3.8 as BF16.
_BF16_OR_F32 = ("BF16", "F32")


@dataclass(frozen=True, slots=True)
class Expected:
    """Shape and accepted dtypes of one tensor."""

    shape: tuple[int, ...]
    dtypes: tuple[str, ...] = _BF16


def text_tensors(config: TextConfig) -> dict[str, Expected]:
    """Every tensor the text stack needs, in layer order; nothing optional is listed."""
    hidden = config.hidden_size
    table = {"embed_tokens.weight": Expected((config.vocab_size, hidden))}
    for index, kind in enumerate(config.layer_types):
        layer = _linear_layer(config) if kind == "linear_attention" else attention_layer(config)
        table |= {f"layers.{index}.{name}": expected for name, expected in layer.items()}
    table["norm.weight"] = Expected((hidden,))
    return table


def attention_layer(config: TextConfig) -> dict[str, Expected]:
    """A full-attention layer; q_proj holds per head its query rows, then its gate rows."""
    heads = config.num_heads * config.head_dim
    kv = config.num_kv_heads * config.head_dim
    hidden = config.hidden_size
    return {
        "self_attn.q_proj.weight": Expected((2 * heads, hidden)),
        "self_attn.k_proj.weight": Expected((kv, hidden)),
        "self_attn.v_proj.weight": Expected((kv, hidden)),
        "self_attn.o_proj.weight": Expected((hidden, heads)),
        "self_attn.q_norm.weight": Expected((config.head_dim,)),
        "self_attn.k_norm.weight": Expected((config.head_dim,)),
        **_norms_and_mlp(config),
    }


def _linear_layer(config: TextConfig) -> dict[str, Expected]:
    hidden, value_heads = config.hidden_size, config.linear_value_heads
    return {
        "linear_attn.in_proj_qkv.weight": Expected((config.conv_width, hidden)),
        "linear_attn.in_proj_z.weight": Expected((config.value_width, hidden)),
        "linear_attn.in_proj_b.weight": Expected((value_heads, hidden)),
        "linear_attn.in_proj_a.weight": Expected((value_heads, hidden)),
        "linear_attn.conv1d.weight": Expected((config.conv_width, 1, config.conv_kernel)),
        "linear_attn.A_log": Expected((value_heads,), _BF16_OR_F32),
        "linear_attn.dt_bias": Expected((value_heads,)),
        "linear_attn.norm.weight": Expected((config.linear_value_dim,), _BF16_OR_F32),
        "linear_attn.out_proj.weight": Expected((hidden, config.value_width)),
        **_norms_and_mlp(config),
    }


def _norms_and_mlp(config: TextConfig) -> dict[str, Expected]:
    hidden, inner = config.hidden_size, config.intermediate_size
    return {
        "input_layernorm.weight": Expected((hidden,)),
        "post_attention_layernorm.weight": Expected((hidden,)),
        "mlp.gate_proj.weight": Expected((inner, hidden)),
        "mlp.up_proj.weight": Expected((inner, hidden)),
        "mlp.down_proj.weight": Expected((hidden, inner)),
    }


def canonical(name: str) -> str | None:
    """The canonical form of a stored text tensor's name; None for vision, MTP and lm_head."""
    if name.startswith(("model.visual.", "visual.", "mtp.", "lm_head.")):
        return None
    prefix = next(p for p in PREFIXES if name.startswith(p))
    return name[len(prefix) :]
