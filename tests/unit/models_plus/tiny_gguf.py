"""A tiny random model in a GGUF file of the real layout, written here byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers.pre_tokenizers import ByteLevel

HIDDEN, HEADS, KV_HEADS, LAYERS, INNER = 64, 4, 2, 2, 96
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = ("Ġ t", "Ġt h", "t h", "Ġth e", "a t", "i s", "1 0")
# The byte that the tiny vocabulary lacks: "~".
LACKING = "~"

Tensors = dict[str, tuple[tuple[int, ...], int, bytes]]


def vocabulary() -> list[str]:
    letters = sorted(set(ByteLevel.alphabet()) - {LACKING})
    return [*SPECIALS, *letters, *(m.replace(" ", "") for m in MERGES)]


def metadata() -> dict[str, Any]:
    return {
        "general.architecture": "llama",
        "llama.block_count": LAYERS,
        "llama.context_length": 600,
        "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.rope.freq_base": 100000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": vocabulary(),
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.unknown_token_id": 0,
    }


def pack_value(value: Any) -> bytes:
    """A metadata value with its type number in front."""
    if isinstance(value, str):
        return struct.pack("<IQ", 8, len(value.encode())) + value.encode()
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    items = b"".join(pack_value(v)[4:] for v in value)
    kind = {str: 8, int: 4, float: 6}[type(value[0])]
    return struct.pack("<IIQ", 9, kind, len(value)) + items


def pack_gguf(values: Mapping[str, Any], tensors: Tensors) -> bytes:
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(values))
    for key, value in values.items():
        head += struct.pack("<Q", len(key)) + key.encode() + pack_value(value)
    data = b""
    for name, (shape, kind, raw) in tensors.items():
        data += b"\0" * (-len(data) % 32)
        head += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape[::-1]) + struct.pack("<IQ", kind, len(data))
        data += raw
    return head + b"\0" * (-len(head) % 32) + data


def pack_q8_0(values: NDArray[np.float32]) -> bytes:
    """Blocks of 32: a half-precision scale and signed bytes."""
    out = b""
    for block in values.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 127)
        out += scale.tobytes() + np.rint(block / np.float32(scale)).astype(np.int8).tobytes()
    return out


def pack_q4_1(values: NDArray[np.float32]) -> bytes:
    """Blocks of 32: scale, minimum, then weight i in the low half of byte i, i + 16 in the high."""
    out = b""
    for block in values.reshape(-1, 32):
        low, scale = np.float16(block.min()), np.float16((block.max() - block.min()) / 15)
        level = np.clip(np.rint((block - np.float32(low)) / np.float32(scale)), 0, 15)
        level = level.astype(np.uint8)
        out += scale.tobytes() + low.tobytes() + (level[:16] | (level[16:] << 4)).tobytes()
    return out


def tiny_tensors(seed: int = 7, *, tied: bool = True) -> Tensors:
    """Random weights: a Q8_0 embedding, Q4_1 matrices, F32 norms, perhaps an F16 head."""
    rng = np.random.default_rng(seed)
    dim = HIDDEN // HEADS
    vocab = len(vocabulary())

    def draw(*shape: int) -> NDArray[np.float32]:
        return (rng.standard_normal(shape) * 1.5 / np.sqrt(shape[-1])).astype(np.float32)

    def norm() -> tuple[tuple[int, ...], int, bytes]:
        return (HIDDEN,), 0, rng.uniform(0.5, 1.5, HIDDEN).astype(np.float32).tobytes()

    shapes = {
        "attn_q": (HIDDEN, HIDDEN),
        "attn_k": (KV_HEADS * dim, HIDDEN),
        "attn_v": (KV_HEADS * dim, HIDDEN),
        "attn_output": (HIDDEN, HIDDEN),
        "ffn_gate": (INNER, HIDDEN),
        "ffn_up": (INNER, HIDDEN),
        "ffn_down": (HIDDEN, INNER),
    }
    tensors: Tensors = {
        "token_embd.weight": ((vocab, HIDDEN), 8, pack_q8_0(draw(vocab, HIDDEN) * 4)),
        "output_norm.weight": norm(),
    }
    if not tied:
        head = draw(vocab, HIDDEN).astype(np.float16)
        tensors["output.weight"] = (head.shape, 1, head.tobytes())
    for i in range(LAYERS):
        tensors[f"blk.{i}.attn_norm.weight"] = norm()
        tensors[f"blk.{i}.ffn_norm.weight"] = norm()
        for name, shape in shapes.items():
            tensors[f"blk.{i}.{name}.weight"] = (shape, 3, pack_q4_1(draw(*shape)))
    return tensors
