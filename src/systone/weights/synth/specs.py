"""What can be synthesised: a backbone per package name, at full and at tiny size.

A new model is a new row here and in `families.py`. Knows no tensors. Full shapes are facts
of the official configurations; the tiny ones keep head dims, the ratio of value to key heads, of
query to KV heads and the layer pattern, and shrink the rest.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from systone.errors import ConfigError
from systone.weights.families import Family, by_name

__all__ = ["BACKBONES", "Backbone", "Recipe", "Vision", "find"]


@dataclass(frozen=True, slots=True)
class Vision:
    """The vision tower's dims; its tensors are written so that loaders have to skip them."""

    depth: int
    hidden: int
    intermediate: int
    heads: int = 16
    positions: int = 2304


@dataclass(frozen=True, slots=True)
class Backbone:
    """A `qwen3_5` backbone. `wide_gates`: A_log and the gated norm's weight are stored as F32."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    linear_key_heads: int
    linear_value_heads: int
    vision: Vision
    wide_gates: bool
    lm_head: bool = True
    extra_config: tuple[tuple[str, Any], ...] = ()
    vocab: int = 248_320

    def text_config(self) -> dict[str, Any]:
        """`text_config` with the official field names."""
        pattern = ("linear_attention",) * 3 + ("full_attention",)
        return {
            "attention_bias": False,
            "attention_dropout": 0.0,
            "attn_output_gate": True,
            "dtype": "bfloat16",
            "eos_token_id": 248_044,
            "full_attention_interval": 4,
            "head_dim": 256,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "initializer_range": 0.02,
            "intermediate_size": self.intermediate,
            "layer_types": [pattern[i % 4] for i in range(self.layers)],
            "linear_conv_kernel_dim": 4,
            "linear_key_head_dim": 128,
            "linear_num_key_heads": self.linear_key_heads,
            "linear_num_value_heads": self.linear_value_heads,
            "linear_value_head_dim": 128,
            "mamba_ssm_dtype": "float32",
            "max_position_embeddings": 262_144,
            "model_type": "qwen3_5_text",
            "mtp_num_hidden_layers": 1,
            "mtp_use_dedicated_embeddings": False,
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.kv_heads,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "mrope_interleaved": True,
                "mrope_section": [11, 11, 10],
                "partial_rotary_factor": 0.25,
                "rope_theta": 10_000_000,
                "rope_type": "default",
            },
            "tie_word_embeddings": False,
            "use_cache": True,
            "vocab_size": self.vocab,
            **dict(self.extra_config),
        }

    def config(self) -> dict[str, Any]:
        """The whole `config.json`."""
        return {
            "architectures": ["Qwen3_5ForConditionalGeneration"],
            "image_token_id": 248_056,
            "model_type": "qwen3_5",
            "text_config": self.text_config(),
            "tie_word_embeddings": self.text_config()["tie_word_embeddings"],
            "video_token_id": 248_057,
            "vision_config": {
                "depth": self.vision.depth,
                "hidden_act": "gelu_pytorch_tanh",
                "hidden_size": self.vision.hidden,
                "in_channels": 3,
                "initializer_range": 0.02,
                "intermediate_size": self.vision.intermediate,
                "model_type": "qwen3_5_vision",
                "num_heads": self.vision.heads,
                "num_position_embeddings": self.vision.positions,
                "out_hidden_size": self.hidden,
                "patch_size": 16,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            },
            "vision_end_token_id": 248_054,
            "vision_start_token_id": 248_053,
        }


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to synthesise: a package's family on a backbone of some size."""

    family: Family
    backbone: Backbone
    size: str

    def revision(self, part: str, seed: int) -> str:
        """40 hex digits that name this synthetic base or checkpoint, and no official one."""
        text = f"systone-synth-1|{part}|{self.family.name}|{seed}|{self.backbone}"
        return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


_FULL_VISION = Vision(depth=27, hidden=1152, intermediate=4304)
_TINY_VISION = Vision(depth=2, hidden=64, intermediate=128, heads=4, positions=64)

_HALF_VISION = Vision(depth=24, hidden=1024, intermediate=4096)

_POINT_EIGHT_B = Backbone(
    hidden=1024,
    intermediate=3584,
    layers=24,
    heads=8,
    kv_heads=2,
    linear_key_heads=16,
    linear_value_heads=16,
    vision=Vision(depth=12, hidden=768, intermediate=3072, heads=12),
    wide_gates=True,
    lm_head=False,
    extra_config=(("tie_word_embeddings", True),),
)
_FOUR_B = Backbone(
    hidden=2560,
    intermediate=9216,
    layers=32,
    heads=16,
    kv_heads=4,
    linear_key_heads=16,
    linear_value_heads=32,
    vision=_HALF_VISION,
    wide_gates=True,
    lm_head=False,
    extra_config=(("tie_word_embeddings", True),),
)
_NINE_B = Backbone(
    hidden=4096,
    intermediate=12_288,
    layers=32,
    heads=16,
    kv_heads=4,
    linear_key_heads=16,
    linear_value_heads=32,
    vision=_FULL_VISION,
    wide_gates=True,
)
_TWENTY_SEVEN_B = Backbone(
    hidden=5120,
    intermediate=17_408,
    layers=64,
    heads=24,
    kv_heads=4,
    linear_key_heads=16,
    linear_value_heads=48,
    vision=_FULL_VISION,
    wide_gates=False,
    extra_config=(("output_gate_type", "swish"),),
)


def _tiny(full: Backbone) -> Backbone:
    """128 wide, 8 layers, 2 KV heads and 2 key heads with the full model's ratios. Without
    lm_head: with the real vocabulary it alone would be as large as all the rest."""
    return replace(
        full,
        hidden=128,
        intermediate=384,
        layers=8,
        heads=2 * full.heads // full.kv_heads,
        kv_heads=2,
        linear_key_heads=2,
        linear_value_heads=2 * full.linear_value_heads // full.linear_key_heads,
        vision=_TINY_VISION,
        lm_head=False,
    )


# Family name -> its backbone at full size.
BACKBONES = {
    "open-jev-9b": _NINE_B,
    "open-jev-27b-v1.1": _TWENTY_SEVEN_B,
    "kev-0.8b": _POINT_EIGHT_B,
    "kev-4b": _FOUR_B,
    "kev-9b": _NINE_B,
    "kev-27b": _TWENTY_SEVEN_B,
}


def find(name: str, size: str) -> Recipe:
    """The recipe of that package at that size; ConfigError for one that doesn't exist."""
    if name not in BACKBONES:
        raise ConfigError(f"no model {name!r} to synthesise; there are: {', '.join(BACKBONES)}")
    if size not in ("tiny", "full"):
        raise ConfigError(f"size {size!r} is neither 'tiny' nor 'full'")
    full = BACKBONES[name]
    return Recipe(by_name(name), full if size == "full" else _tiny(full), size)
