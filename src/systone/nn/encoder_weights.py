"""Which tensors a marker encoder's checkpoint holds, and how they are placed on a device.

Owns stored names, shapes and the dtype each tensor is computed in; knows no files. Linear weights
and the embedding are in the products' dtype, everything else is FP32.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from systone.nn.encoder import EncoderBody, Product
from systone.nn.encoder_config import EncoderConfig, MarkerConfig
from systone.nn.encoder_head import MarkerEncoder

__all__ = ["NUM_KINDS", "build", "not_served", "served_tensors"]

NUM_KINDS = 3
_ACT_WIDTH = 256
_ACT_FEATURES = 4  # beside the pooled row: top p, margin, entropy, number of options

Shapes = dict[str, tuple[int, ...]]


def served_tensors(body: EncoderConfig, head: MarkerConfig) -> Shapes:
    """Stored name -> shape of everything that takes part in an answer."""
    d = body.hidden_size
    shapes = {f"encoder.{name}": shape for name, shape in _body(body).items()}
    shapes["type_emb.weight"] = (NUM_KINDS, d)
    for layer in range(head.layers):
        shapes |= {f"head.layers.{layer}.{n}": s for n, s in _head_layer(d).items()}
    shapes |= {"scorer.0.weight": (d,), "scorer.0.bias": (d,)}
    return shapes | _linear("scorer.1", d, d) | _linear("scorer.3", 1, d)


def not_served(body: EncoderConfig, head: MarkerConfig) -> Shapes:
    """What the official layout holds beside: the act head, whose output carries no signal by the
    model's own card, and a buffer that the config's temperatures replace."""
    width = body.hidden_size + _ACT_FEATURES
    shapes: Shapes = {"temperature": (NUM_KINDS,)}
    shapes |= _linear("act_head.0", _ACT_WIDTH, width)
    return shapes | _linear("act_head.2", head.num_actions, _ACT_WIDTH)


def build(
    body: EncoderConfig,
    head: MarkerConfig,
    read: Callable[[str], Tensor],
    *,
    dtype: torch.dtype,
    device: torch.device,
    product: Product,
    longest: int,
) -> MarkerEncoder:
    """The model on a device, from `read(stored name)`. `longest`: of a row, in tokens."""
    tensors = {
        name: read(name).to(
            device=device, dtype=dtype if _multiplies(name) else torch.float32, copy=True
        )
        for name in served_tensors(body, head)
    }
    prefix = "encoder."
    inner = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
    return MarkerEncoder(EncoderBody(body, inner, product, longest), head, tensors, product)


def _multiplies(name: str) -> bool:
    """Whether a tensor is the weight of a product in the products' dtype (or the embedding)."""
    if name.startswith("scorer.") or "norm" in name:
        return False
    return name.startswith(("encoder.", "head.")) and name.endswith("weight")


def _body(config: EncoderConfig) -> Shapes:
    d, inner = config.hidden_size, config.intermediate_size
    shapes: Shapes = {
        "embeddings.tok_embeddings.weight": (config.vocab_size, d),
        "embeddings.norm.weight": (d,),
    }
    for layer in range(config.num_layers):
        name = f"layers.{layer}"
        if layer:
            shapes[f"{name}.attn_norm.weight"] = (d,)
        shapes[f"{name}.attn.Wqkv.weight"] = (3 * d, d)
        shapes[f"{name}.attn.Wo.weight"] = (d, d)
        shapes[f"{name}.mlp_norm.weight"] = (d,)
        shapes[f"{name}.mlp.Wi.weight"] = (2 * inner, d)
        shapes[f"{name}.mlp.Wo.weight"] = (d, inner)
    return shapes | {"final_norm.weight": (d,)}


def _head_layer(d: int) -> Shapes:
    shapes: Shapes = {"self_attn.in_proj_weight": (3 * d, d), "self_attn.in_proj_bias": (3 * d,)}
    for name, rows, columns in (
        ("self_attn.out_proj", d, d),
        ("linear1", 4 * d, d),
        ("linear2", d, 4 * d),
    ):
        shapes |= _linear(name, rows, columns)
    for name in ("norm1", "norm2"):
        shapes |= {f"{name}.weight": (d,), f"{name}.bias": (d,)}
    return shapes


def _linear(name: str, rows: int, columns: int) -> Shapes:
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}
