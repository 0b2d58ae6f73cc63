"""transformers' Llama on a GGUF file's tensors: the truth that the NumPy forward is held to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from systone.models.mini_plus.gguf import GgufFile

_NAMES = {
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


def logits(file: GgufFile, ids: np.ndarray) -> np.ndarray:
    """Float32 logits [T, vocabulary] of ids [T]."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    values = file.metadata
    config = transformers.LlamaConfig(
        vocab_size=len(values["tokenizer.ggml.tokens"]),
        hidden_size=values["llama.embedding_length"],
        intermediate_size=values["llama.feed_forward_length"],
        num_hidden_layers=values["llama.block_count"],
        num_attention_heads=values["llama.attention.head_count"],
        num_key_value_heads=values["llama.attention.head_count_kv"],
        rms_norm_eps=values["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": values["llama.rope.freq_base"]},
        tie_word_embeddings=False,
    )
    model: Any = transformers.LlamaForCausalLM(config).eval()
    model.load_state_dict({k: torch.from_numpy(v) for k, v in _state_dict(file).items()})
    with torch.no_grad():
        return np.asarray(model(torch.from_numpy(ids)[None]).logits[0])


def _state_dict(file: GgufFile) -> dict[str, np.ndarray]:
    """Names to arrays, rotary rows put back in order and the output matrix always listed."""
    names = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
    dim = file.metadata["llama.embedding_length"] // file.metadata["llama.attention.head_count"]
    out = {f"{new}.weight": file.tensor(f"{old}.weight") for old, new in names.items()}
    head = "output" if "output.weight" in file.names else "token_embd"
    out["lm_head.weight"] = file.tensor(f"{head}.weight")
    for i in range(file.metadata["llama.block_count"]):
        for old, new in _NAMES.items():
            weight = file.tensor(f"blk.{i}.{old}.weight")
            if old in ("attn_q", "attn_k"):
                heads = len(weight) // dim
                rows = [
                    h * dim + 2 * j + k
                    for h in range(heads)
                    for k in (0, 1)
                    for j in range(dim // 2)
                ]
                weight = weight[rows]
            out[f"model.layers.{i}.{new}.weight"] = weight
    return out
