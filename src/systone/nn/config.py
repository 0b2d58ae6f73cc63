"""Shape of a Qwen3.5-family text backbone, read from a checkpoint's `config.json`. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from systone.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TextConfig:
    """`text_config` of a `qwen3_5` checkpoint. Hk/Hv: linear key/value heads."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    layer_types: tuple[str, ...]  # "linear_attention" | "full_attention"
    num_heads: int
    num_kv_heads: int
    head_dim: int
    linear_key_heads: int
    linear_value_heads: int
    linear_key_dim: int
    linear_value_dim: int
    conv_kernel: int
    rope_theta: float
    rotary_dim: int
    mrope_section: tuple[int, ...]
    rms_norm_eps: float
    tie_word_embeddings: bool
    max_positions: int

    @property
    def key_width(self) -> int:
        return self.linear_key_heads * self.linear_key_dim

    @property
    def value_width(self) -> int:
        return self.linear_value_heads * self.linear_value_dim

    @property
    def conv_width(self) -> int:
        """Channels of the causal convolution: q, k and v side by side."""
        return 2 * self.key_width + self.value_width

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> TextConfig:
        """From a whole `config.json` or its `text_config`. Raises ConfigError naming the field."""
        text = config.get("text_config", config)
        try:
            rope = text.get("rope_parameters") or text.get("rope_scaling") or {}
            theta = rope.get("rope_theta", text.get("rope_theta"))
            factor = rope.get("partial_rotary_factor", text.get("partial_rotary_factor", 0.25))
            head_dim = int(text["head_dim"])
            layers = int(text["num_hidden_layers"])
            interval = int(text.get("full_attention_interval", 4))
            types = text.get("layer_types") or [
                "full_attention" if i % interval == interval - 1 else "linear_attention"
                for i in range(layers)
            ]
            made = cls(
                vocab_size=int(text["vocab_size"]),
                hidden_size=int(text["hidden_size"]),
                intermediate_size=int(text["intermediate_size"]),
                num_layers=layers,
                layer_types=tuple(types),
                num_heads=int(text["num_attention_heads"]),
                num_kv_heads=int(text["num_key_value_heads"]),
                head_dim=head_dim,
                linear_key_heads=int(text["linear_num_key_heads"]),
                linear_value_heads=int(text["linear_num_value_heads"]),
                linear_key_dim=int(text["linear_key_head_dim"]),
                linear_value_dim=int(text["linear_value_head_dim"]),
                conv_kernel=int(text["linear_conv_kernel_dim"]),
                rope_theta=float(theta),
                rotary_dim=int(head_dim * factor),
                mrope_section=tuple(rope.get("mrope_section", (11, 11, 10))),
                rms_norm_eps=float(text["rms_norm_eps"]),
                tie_word_embeddings=bool(
                    text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))
                ),
                max_positions=int(text["max_position_embeddings"]),
            )
        except KeyError as missing:
            raise ConfigError(f"config.json: text_config lacks {missing.args[0]!r}") from None
        if len(made.layer_types) != made.num_layers:
            raise ConfigError("config.json: layer_types and num_hidden_layers disagree")
        return made
