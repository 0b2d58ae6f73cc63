"""The Qwen3.5-family text stack over one pass: token ids in, read-out hidden states out.

One forward of every unique token, layer by layer, with no cache; the last layer works for read-out
rows only beyond what they attend to. Rounds where transformers 5.17.0 rounds. Knows no requests.
T tokens, R read-outs, h hidden.
"""

from __future__ import annotations

import torch
from torch import Tensor

from systone.nn.config import TextConfig
from systone.nn.device_tables import DeviceTables
from systone.nn.mixers import PassContext, mix, mix_readouts
from systone.nn.ops import Ops
from systone.nn.text_weights import LayerWeights, TextWeights


class TextStack:
    """Embedding, layers and final norm on given weights and operators; holds no state."""

    def __init__(self, config: TextConfig, weights: TextWeights, ops: Ops) -> None:
        self.config = config
        self.weights = weights
        self.ops = ops

    @property
    def dtype(self) -> torch.dtype:
        return self.weights.embed.dtype

    @property
    def device(self) -> torch.device:
        return self.weights.embed.device

    def readouts(self, tables: DeviceTables) -> Tensor:
        """Final-norm hidden states [R, h] of the rows at `readout_token`, in read-out order."""
        config, ops, eps = self.config, self.ops, self.config.rms_norm_eps
        cos, sin = ops.rotary_table(
            tables.positions,
            theta=config.rope_theta,
            rotary_dim=config.rotary_dim,
            sections=config.mrope_section,
            dtype=self.dtype,
        )
        at = PassContext(config, ops, tables, cos, sin)
        *trunk, last = self.weights.layers
        norms = [layer.input_norm for layer in self.weights.layers]

        residual = ops.gather_rows(self.weights.embed, tables.token_ids)
        normed = ops.rms_norm(residual, norms[0], eps)
        for layer, next_norm in zip(trunk, norms[1:], strict=True):
            mixed = mix(normed, layer.mixer, at)
            normed, residual = self._mlp(mixed, residual, layer, next_norm)

        mixed = mix_readouts(normed, last.mixer, at)
        residual = ops.gather_rows(residual, tables.readout_token)
        normed, _ = self._mlp(mixed, residual, last, self.weights.norm)
        return normed

    def _mlp(
        self, mixed: Tensor, residual: Tensor, layer: LayerWeights, next_norm: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The layer's second half, up to and with the norm that follows it: (normed, residual)."""
        ops, eps = self.ops, self.config.rms_norm_eps
        normed, residual = ops.add_rms_norm(mixed, residual, layer.post_norm, eps)
        inner = ops.swiglu(ops.linear(normed, layer.gate_up))
        return ops.add_rms_norm(ops.linear(inner, layer.down), residual, next_norm, eps)
