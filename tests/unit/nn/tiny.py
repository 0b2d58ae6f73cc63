"""Tiny random checkpoints of both layouts, whose weights have memory, and transformers on them.

Memory: per-token decays spread over 0.5..0.9995, conv taps of order one, attention far from
uniform and led by position; otherwise a lost state, lost keys or restarted positions would not
show at the read-out. The residual stays the larger part, so that bf16 noise is not amplified.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5TextModel

from systone.nn.config import TextConfig
from tests.unit.nn.rows import POSITION_PULL, VOCAB, flat, random_ids, relative_l2

__all__ = [
    "POSITION_PULL",
    "VOCAB",
    "Checkpoint",
    "flat",
    "official_hidden",
    "random_ids",
    "relative_l2",
    "tiny_json",
    "tiny_tensors",
    "transformers_model",
]


def tiny_json(layout: str, *, layers: int = 8, wide: bool = False) -> dict[str, Any]:
    """`config.json` of a small model: "9b" has Hv/Hk 2 and GQA 4, "27b" has Hv/Hk 3 and GQA 6.

    `wide`: GDN heads as wide as the real ones, under a hidden size of 256."""
    heads, values = {"9b": (4, 4), "27b": (6, 6)}[layout]
    hidden, delta_dim = (256, 128) if wide else (64, 32)
    return {
        "vocab_size": VOCAB,
        "hidden_size": hidden,
        "intermediate_size": hidden * 3 // 2,
        "num_hidden_layers": layers,
        "layer_types": [
            "full_attention" if i % 4 == 3 else "linear_attention" for i in range(layers)
        ],
        "num_attention_heads": heads,
        "num_key_value_heads": 1,
        "head_dim": 64,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": values,
        "linear_key_head_dim": delta_dim,
        "linear_value_head_dim": delta_dim,
        "linear_conv_kernel_dim": 4,
        "rope_parameters": {
            "rope_theta": 1e7,
            "partial_rotary_factor": 0.25,
            "rope_type": "default",
            "mrope_section": [3, 3, 2],
            "mrope_interleaved": True,
        },
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "max_position_embeddings": 32768,
    }


def tiny_tensors(
    config: TextConfig, seed: int, dtype: torch.dtype, *, pull: float = POSITION_PULL
) -> dict[str, Tensor]:
    """Every tensor by canonical name, rounded to `dtype` once. `pull` is added to the q and k norm
    weights of the rotated dimensions: how far position leads attention."""
    made = torch.Generator().manual_seed(seed)

    def normal(*shape: int, std: float = 1.0) -> Tensor:
        return torch.randn(shape, generator=made) * std

    def matrix(rows: int, columns: int, gain: float = 1.0) -> Tensor:
        return normal(rows, columns, std=gain / math.sqrt(columns))

    h, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    tensors = {"embed_tokens.weight": normal(config.vocab_size, h), "norm.weight": normal(h) * 0.1}
    for i, kind in enumerate(config.layer_types):
        at = f"layers.{i}."
        tensors |= {
            f"{at}input_layernorm.weight": normal(h, std=0.1),
            f"{at}post_attention_layernorm.weight": normal(h, std=0.1),
            f"{at}mlp.gate_proj.weight": matrix(inner, h),
            f"{at}mlp.up_proj.weight": matrix(inner, h),
            f"{at}mlp.down_proj.weight": matrix(h, inner, 0.2),
        }
        if kind == "full_attention":
            at += "self_attn."
            queries, keys = config.num_heads * dim, config.num_kv_heads * dim
            turned = torch.where(torch.arange(dim) < config.rotary_dim, pull, 0.0)
            tensors |= {
                f"{at}q_proj.weight": matrix(2 * queries, h),
                f"{at}k_proj.weight": matrix(keys, h),
                f"{at}v_proj.weight": matrix(keys, h),
                f"{at}o_proj.weight": matrix(h, queries, 4.0),
                f"{at}q_norm.weight": turned + normal(dim, std=0.2),
                f"{at}k_norm.weight": turned + normal(dim, std=0.2),
            }
        else:
            at += "linear_attn."
            tensors |= _delta_tensors(at, config, normal, matrix)
    return {name: tensor.to(dtype) for name, tensor in tensors.items()}


def _delta_tensors(at: str, config: TextConfig, normal, matrix) -> dict[str, Tensor]:
    heads, h = config.linear_value_heads, config.hidden_size
    bias = normal(heads, std=0.3)
    forget = torch.logspace(math.log10(0.5), math.log10(0.0005), heads)  # 1 - decay per token
    rate = -torch.log1p(-forget)
    return {
        f"{at}in_proj_qkv.weight": matrix(config.conv_width, h),
        f"{at}in_proj_z.weight": matrix(config.value_width, h),
        f"{at}in_proj_b.weight": matrix(heads, h),
        f"{at}in_proj_a.weight": matrix(heads, h, 0.3),
        f"{at}conv1d.weight": normal(config.conv_width, 1, config.conv_kernel, std=0.7),
        f"{at}A_log": torch.log(rate / torch.nn.functional.softplus(bias)),
        f"{at}dt_bias": bias,
        f"{at}norm.weight": 1.0 + normal(config.linear_value_dim, std=0.1),
        f"{at}out_proj.weight": matrix(h, config.value_width, 0.8),
    }


def transformers_model(
    json: Mapping[str, Any], tensors: Mapping[str, Tensor], dtype: torch.dtype
) -> Qwen3_5TextModel:
    """transformers' text model holding exactly these tensors (pure-torch GDN, as installed)."""
    config = Qwen3_5TextConfig(**json)
    config._attn_implementation = "sdpa"
    model = Qwen3_5TextModel(config).eval()
    model.load_state_dict(dict(tensors), strict=True)
    return model.to(dtype)


def official_hidden(model: Qwen3_5TextModel, rows: list[list[int]]) -> Tensor:
    """Final-norm hidden state of each row's last token, [R, h] in the model's dtype; rows of one
    length go as one batch without padding, which leaves each row's maths alone."""
    found: dict[int, Tensor] = {}
    for length in sorted({len(row) for row in rows}):
        chosen = [i for i, row in enumerate(rows) if len(row) == length]
        ids = torch.tensor([rows[i] for i in chosen])
        with torch.inference_mode():
            last = model(input_ids=ids, use_cache=False).last_hidden_state[:, -1]
        found |= dict(zip(chosen, last, strict=True))
    return torch.stack([found[i] for i in range(len(rows))])


@dataclass(frozen=True)
class Checkpoint:
    """A tiny checkpoint as a loader hands it over: stack tensors (bf16) and scalar head (FP32)."""

    config: TextConfig
    tensors: dict[str, Tensor]
    head_weight: Tensor
    head_bias: Tensor

    @classmethod
    def of(cls, config: TextConfig, seed: int, *, pull: float = POSITION_PULL) -> Checkpoint:
        made = torch.Generator().manual_seed(seed + 1000)
        weight = torch.randn(1, config.hidden_size, generator=made) / config.hidden_size**0.5
        tensors = tiny_tensors(config, seed, torch.bfloat16, pull=pull)
        return cls(config, tensors, weight, torch.tensor([0.25]))
