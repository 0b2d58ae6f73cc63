"""A Llama-architecture forward in float32 NumPy, for one short sequence at a time.

Owns the arithmetic and the key/value cache; knows no text and no questions. One sequence a call,
no batch axis and no padding, so a row's bits never depend on its neighbours.
T new tokens, P cached tokens, H query heads, G key/value heads, D head width, C hidden width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from systone.errors import ConfigError
from systone.models.mini_plus.gguf import GgufFile

__all__ = ["BLOCK", "Cache", "Llama", "LlamaConfig", "load_llama"]

# Tokens computed at once: bounds the memory of attention scores and of logits.
BLOCK = 256

Array = NDArray[np.float32]
# Per layer: rotated keys and values of the tokens so far, each [G, P, D].
Cache = tuple[tuple[Array, Array], ...]


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """Shape of the model; `max_tokens` is its trained context."""

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_base: float
    norm_eps: float
    max_tokens: int

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> LlamaConfig:
        """From a GGUF file's keys; raises ConfigError for another architecture or rope kind."""
        architecture = metadata.get("general.architecture")
        if architecture != "llama" or "llama.rope.scaling.type" in metadata:
            raise ConfigError(f"the GGUF file is not a plain llama model ({architecture!r})")
        heads = metadata["llama.attention.head_count"]
        return cls(
            num_layers=metadata["llama.block_count"],
            num_heads=heads,
            num_kv_heads=metadata["llama.attention.head_count_kv"],
            head_dim=metadata["llama.embedding_length"] // heads,
            rope_base=metadata["llama.rope.freq_base"],
            norm_eps=metadata["llama.attention.layer_norm_rms_epsilon"],
            max_tokens=metadata["llama.context_length"],
        )


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer's weights [out, in]; projections that read the same input are stacked."""

    attention_norm: Array
    qkv: Array
    attention_out: Array
    mlp_norm: Array
    gate_up: Array
    down: Array


@dataclass(frozen=True, slots=True)
class Llama:
    """The weights and the forward. `head` is the output matrix [vocabulary, C]."""

    config: LlamaConfig
    embedding: Array
    layers: tuple[_Layer, ...]
    norm: Array
    head: Array

    @property
    def num_bytes(self) -> int:
        """Memory of the weights."""
        arrays = [self.embedding, self.norm]
        arrays += [] if self.head is self.embedding else [self.head]
        for layer in self.layers:
            arrays += [layer.attention_norm, layer.qkv, layer.attention_out]
            arrays += [layer.mlp_norm, layer.gate_up, layer.down]
        return sum(a.nbytes for a in arrays)

    def forward(self, ids: NDArray[np.int64], past: Cache | None = None) -> tuple[Array, Cache]:
        """Final normed hidden states [T, C] of `ids` [T], T >= 1, that follow `past`, and the new
        cache. Read in blocks of BLOCK tokens.

        `past` is left untouched, so several continuations can start from one cache."""
        hidden, cache = self._block(ids[:BLOCK], past)
        blocks = [hidden]
        for at in range(BLOCK, len(ids), BLOCK):
            hidden, cache = self._block(ids[at : at + BLOCK], cache)
            blocks.append(hidden)
        return np.concatenate(blocks), cache

    def log_probs(self, hidden: Array, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Log-probability [T] of token `ids[t]` after the hidden state `hidden[t]`, in nats."""
        blocks = range(0, len(ids), BLOCK)
        parts = [self._block_log_probs(hidden[i : i + BLOCK], ids[i : i + BLOCK]) for i in blocks]
        return np.concatenate(parts)

    def _block_log_probs(self, hidden: Array, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        logits = hidden @ self.head.T
        top = logits.max(axis=1)
        # float64 sums keep the normaliser exact over the vocabulary
        total = np.exp(logits - top[:, None]).sum(axis=1, dtype=np.float64)
        chosen = logits[np.arange(len(ids)), ids].astype(np.float64)
        return np.asarray(chosen - top - np.log(total))

    def _block(self, ids: NDArray[np.int64], past: Cache | None) -> tuple[Array, Cache]:
        start = past[0][0].shape[1] if past is not None else 0
        cos, sin = self._angles(start, len(ids))
        hidden = self.embedding[ids]
        cache = []
        for index, layer in enumerate(self.layers):
            before = past[index] if past is not None else None
            normed = _rms_norm(hidden, layer.attention_norm, self.config.norm_eps)
            attended, kept = self._attend(normed @ layer.qkv.T, before, cos, sin)
            cache.append(kept)
            hidden = hidden + attended @ layer.attention_out.T
            normed = _rms_norm(hidden, layer.mlp_norm, self.config.norm_eps)
            gate, up = np.split(normed @ layer.gate_up.T, 2, axis=1)
            hidden += (_silu(gate) * up) @ layer.down.T
        return _rms_norm(hidden, self.norm, self.config.norm_eps), tuple(cache)

    def _angles(self, start: int, count: int) -> tuple[Array, Array]:
        """Cosines and sines [T, D/2] of the rotary angles, computed in float64."""
        dim = self.config.head_dim
        frequency = self.config.rope_base ** (-np.arange(0, dim, 2) / dim)
        angle = np.arange(start, start + count)[:, None] * frequency
        return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    def _attend(
        self, qkv: Array, past: tuple[Array, Array] | None, cos: Array, sin: Array
    ) -> tuple[Array, tuple[Array, Array]]:
        """Causal grouped-query attention: outputs [T, H*D], and keys and values with `past`."""
        c = self.config
        count, groups, per_group = len(qkv), c.num_kv_heads, c.num_heads // c.num_kv_heads
        heads = qkv.reshape(count, -1, c.head_dim).transpose(1, 0, 2)
        query = _rotate(heads[: c.num_heads], cos, sin)
        key = _rotate(heads[c.num_heads : c.num_heads + groups], cos, sin)
        value = heads[c.num_heads + groups :]
        if past is not None:
            key = np.concatenate([past[0], key], axis=1)
            value = np.concatenate([past[1], value], axis=1)
        total = key.shape[1]
        # the query heads of a group share its keys: one product per group
        grouped = query.reshape(groups, per_group * count, c.head_dim)
        scores = (grouped @ key.transpose(0, 2, 1)) * np.float32(c.head_dim**-0.5)
        scores = scores.reshape(c.num_heads, count, total)
        hidden_from = np.arange(total)[None, :] > np.arange(total - count, total)[:, None]
        scores[:, hidden_from] = -np.inf
        weights = _softmax(scores).reshape(groups, per_group * count, total)
        out = (weights @ value).reshape(c.num_heads, count, c.head_dim)
        return out.transpose(1, 0, 2).reshape(count, -1), (key, value)


def load_llama(file: GgufFile, progress: Callable[[float], None] = lambda _: None) -> Llama:
    """Dequantise a GGUF file's weights; `progress` hears the share done, 0..1, after each layer.

    Raises ConfigError for another architecture or a missing weight."""
    config = LlamaConfig.from_metadata(file.metadata)
    embedding = file.tensor("token_embd.weight")
    layers = []
    for i in range(config.num_layers):
        layers.append(_load_layer(file, f"blk.{i}.", config))
        progress((i + 1) / config.num_layers)
    head = file.tensor("output.weight") if "output.weight" in file.names else embedding
    return Llama(config, embedding, tuple(layers), file.tensor("output_norm.weight"), head)


def _load_layer(file: GgufFile, prefix: str, config: LlamaConfig) -> _Layer:
    def read(name: str) -> Array:
        return file.tensor(f"{prefix}{name}.weight")

    query, key = read("attn_q"), read("attn_k")
    dim = config.head_dim
    return _Layer(
        attention_norm=read("attn_norm"),
        qkv=np.concatenate([_halves(query, dim), _halves(key, dim), read("attn_v")]),
        attention_out=read("attn_output"),
        mlp_norm=read("ffn_norm"),
        gate_up=np.concatenate([read("ffn_gate"), read("ffn_up")]),
        down=read("ffn_down"),
    )


def _halves(weight: Array, head_dim: int) -> Array:
    """GGUF stores each head's rotary pairs side by side; here a pair is (i, i + D/2)."""
    width = weight.shape[1]
    pairs = weight.reshape(-1, head_dim // 2, 2, width)
    return pairs.transpose(0, 2, 1, 3).reshape(-1, width)


def _rms_norm(x: Array, weight: Array, eps: float) -> Array:
    mean = np.mean(x * x, axis=1, keepdims=True)
    return np.asarray(x / np.sqrt(mean + np.float32(eps)) * weight)


def _rotate(x: Array, cos: Array, sin: Array) -> Array:
    """Rotary embedding of heads [heads, T, D] by the angles [T, D/2]."""
    first, second = np.split(x, 2, axis=2)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=2)


def _silu(x: Array) -> Array:
    # exp overflows to inf for very negative x, where x / inf is the exact limit -0.0
    with np.errstate(over="ignore"):
        return np.asarray(x / (1 + np.exp(-x)))


def _softmax(scores: Array) -> Array:
    """Softmax over the last axis, in place."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores
