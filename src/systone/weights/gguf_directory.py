"""A GGUF file of the llama architecture as a directory that transformers loads.

Owns the names and layouts of both sides; values are dequantised to float32. Knows no questions.
Source of the layouts: llama.cpp's conversion of LlamaForCausalLM, reversed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from systone.errors import ConfigError
from systone.models.mini_plus.gguf import GgufFile, read_gguf
from systone.weights.directory import new_directory

__all__ = ["write_gguf_directory"]

_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL = 3  # token type of a control token


def write_gguf_directory(path: Path, out: Path) -> Path:
    """Write `out`, which must not exist or be empty. Raises ConfigError for another architecture or
    another kind of tokenizer than byte-level BPE of the "smollm" kind."""
    file = read_gguf(path)
    try:
        meta = file.metadata
        if meta.get("general.architecture") != "llama" or "llama.rope.scaling.type" in meta:
            raise ConfigError(f"{path}: not a plain llama model")
        with new_directory(out) as directory:
            config = _config(file)
            _write_json(directory / "config.json", config)
            _write_tokenizer(path, meta, directory)
            save_file(_tensors(file, config), directory / "model.safetensors", {"format": "pt"})
    finally:
        file.close()
    return out


def _config(file: GgufFile) -> dict[str, Any]:
    meta = file.metadata
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "hidden_act": "silu",
        "hidden_size": meta["llama.embedding_length"],
        "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"],
        "num_attention_heads": meta["llama.attention.head_count"],
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "max_position_embeddings": meta["llama.context_length"],
        "rms_norm_eps": meta["llama.attention.layer_norm_rms_epsilon"],
        "rope_theta": meta["llama.rope.freq_base"],
        "vocab_size": len(meta["tokenizer.ggml.tokens"]),
        "tie_word_embeddings": "output.weight" not in file.names,
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
    }


def _tensors(file: GgufFile, config: dict[str, Any]) -> dict[str, torch.Tensor]:
    named = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    for i in range(config["num_hidden_layers"]):
        named |= {f"blk.{i}.{old}": f"model.layers.{i}.{new}" for old, new in _LAYER.items()}
    head_dim = config["hidden_size"] // config["num_attention_heads"]
    tensors = {}
    for old, new in named.items():
        if f"{old}.weight" not in file.names and old == "output":
            continue
        value = torch.from_numpy(file.tensor(f"{old}.weight"))
        if old.endswith(("attn_q", "attn_k")):
            value = _halves(value, head_dim)
        tensors[f"{new}.weight"] = value.contiguous()
    return tensors


def _halves(weight: torch.Tensor, head_dim: int) -> torch.Tensor:
    """GGUF keeps each head's rotary pairs side by side; here a pair is (i, i + D/2)."""
    pairs = weight.view(-1, head_dim // 2, 2, weight.shape[1])
    return pairs.transpose(1, 2).reshape(weight.shape)


def _write_tokenizer(path: Path, meta: dict[str, Any] | Any, directory: Path) -> None:
    kind = (meta.get("tokenizer.ggml.model"), meta.get("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise ConfigError(f"{path}: its tokenizer is {kind}, not ('gpt2', 'smollm')")
    tokens = meta["tokenizer.ggml.tokens"]
    merges = [tuple(line.split(" ", 1)) for line in meta["tokenizer.ggml.merges"]]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    unknown = tokens[meta["tokenizer.ggml.unknown_token_id"]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    types = meta["tokenizer.ggml.token_type"]
    control = [t for t, kind in zip(tokens, types, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": unknown}
    if "tokenizer.chat_template" in meta:
        config["chat_template"] = meta["tokenizer.chat_template"]
    _write_json(directory / "tokenizer_config.json", config)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
