"""A synthetic Laya-class checkpoint in the official layout: random weights, a small tokenizer.

Owns its tables and files; every value is a function of (size, seed) alone. The act head and the
temperature buffer are written too, so that loaders have to account for them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from systone.errors import ConfigError
from systone.nn.encoder_config import EncoderConfig, MarkerConfig
from systone.nn.encoder_weights import not_served, served_tensors
from systone.weights.directory import new_directory
from systone.weights.dtypes import TORCH
from systone.weights.manifest import Manifest, hash_files, list_files
from systone.weights.marker_checkpoint import WEIGHTS_NAME
from systone.weights.progress import Report, silent
from systone.weights.synth.noise import normal
from systone.weights.writer import Planned, write_single

__all__ = ["SIZES", "LayaSize", "synthesize_laya"]

# As the English checkpoint has them; "choice:11+" is outside what is served.
_TEMPERATURE = [1.637, 1.251, 1.983]
_BY_OPTIONS = {"choice:3-5": 1.9, "choice:11+": 0.1006, "noul:2": 1.7}
_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True, slots=True)
class LayaSize:
    """Dims of a body and its budgets; `vocab` 0: as the tokenizer."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    local_attention: int
    max_len: int
    head_max_len: int
    dtype: str = "F32"
    vocab: int = 0

    def encoder(self, vocab: int) -> dict[str, Any]:
        """`encoder/config.json` with transformers' field names."""
        return {
            "architectures": ["ModernBertModel"],
            "attention_bias": False,
            "cls_token_id": _SPECIALS.index("[CLS]"),
            "global_attn_every_n_layers": 3,
            "global_rope_theta": 160_000.0,
            "hidden_activation": "gelu",
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "local_attention": self.local_attention,
            "local_rope_theta": 10_000.0,
            "max_position_embeddings": 8192,
            "mlp_bias": False,
            "model_type": "modernbert",
            "norm_bias": False,
            "norm_eps": 1e-5,
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "pad_token_id": 0,
            "sep_token_id": _SPECIALS.index("[SEP]"),
            "vocab_size": vocab,
        }


SIZES = {
    # A window of 16 and rows of 320, so that local layers matter in short tests.
    "tiny": LayaSize(128, 192, 4, 2, 16, 320, 96),
    "full": LayaSize(1024, 2624, 28, 16, 128, 512, 192, "F16", 50_368),
}


def synthesize_laya(size: str, seed: int, out: Path, *, progress: Report | None = None) -> Path:
    """Write a checkpoint directory. Raises ConfigError for another size or a filled `out`."""
    if size not in SIZES:
        raise ConfigError(f"size {size!r} is neither 'tiny' nor 'full'")
    with new_directory(out) as directory:
        _write(SIZES[size], size, seed, directory, progress or silent)
    return out


def _write(spec: LayaSize, size: str, seed: int, directory: Path, report: Report) -> None:
    for name in ("tokenizer", "encoder"):
        (directory / name).mkdir()
    tokenizer = _tokenizer() if size == "tiny" else _wordpieces()
    vocab = spec.vocab or len(tokenizer["model"]["vocab"])
    fields = spec.encoder(vocab)
    _write_json(directory / "tokenizer" / "tokenizer.json", tokenizer)
    _write_json(
        directory / "tokenizer" / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{f"{name[1:-1].lower()}_token": name for name in _SPECIALS},
        },
    )
    _write_json(directory / "encoder" / "config.json", fields)
    _write_json(
        directory / "rl_agent_config.json",
        {
            "encoder": "systone/synthetic-encoder",
            "head_layers": 2,
            "max_len": spec.max_len,
            "head_max_len": spec.head_max_len,
            "act_costs": {"escalate": 0.1},
            "temperature": _TEMPERATURE,
            "temperature_by_options": _BY_OPTIONS,
            "amp_dtype": "bf16",
        },
    )
    planned = _write_weights(spec, EncoderConfig.from_json(fields, size), seed, directory, report)
    text = f"systone-synth-1|laya|{size}|{seed}"
    Manifest(
        kind="package",
        model="laya",
        model_id=f"systone/laya-synthetic-{size}",
        base_revision="",
        checkpoint_revision=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(),
        files=hash_files(directory, list_files(directory)),
        tensors={tensor.name: (tensor.dtype, tensor.shape) for tensor in planned},
        synthetic=True,
    ).write(directory)


def _write_weights(
    spec: LayaSize, body: EncoderConfig, seed: int, directory: Path, report: Report
) -> list[Planned]:
    head = MarkerConfig(layers=2, num_actions=2)
    shapes = served_tensors(body, head) | not_served(body, head)
    planned = [
        Planned(name, "F32" if name == "temperature" else spec.dtype, shape)
        for name, shape in shapes.items()
    ]
    by_name = {tensor.name: tensor for tensor in planned}
    total, done = sum(tensor.num_bytes for tensor in planned), 0

    def advance(num_bytes: int) -> None:
        nonlocal done
        done += num_bytes
        report("synthesising laya", done, total)

    def produce(name: str) -> torch.Tensor:
        return _draw(by_name[name], body.num_layers, seed)

    write_single(directory / WEIGHTS_NAME, planned, produce, advance=advance)
    return planned


def _draw(planned: Planned, layers: int, seed: int) -> torch.Tensor:
    """Variance is kept by linear weights and held small on the residual stream; queries and keys
    are wide enough that attention is far from uniform."""
    name, shape, dtype = planned.name, planned.shape, TORCH[planned.dtype]
    if name == "temperature":
        return torch.tensor(_TEMPERATURE, dtype=dtype)
    std, mean = 1.0, 0.0
    if "norm" in name or name.startswith("scorer.0"):
        std, mean = 0.1, 0.0 if name.endswith("bias") else 1.0
    elif len(shape) == 1:
        std = 0.1
    elif not name.endswith(("tok_embeddings.weight", "type_emb.weight")):
        std = _gain(name, layers) / math.sqrt(shape[-1])
    return normal(shape, seed=seed, name=name, std=std, mean=mean, dtype=dtype)


def _gain(name: str, layers: int) -> float:
    if name.endswith(("attn.Wo.weight", "mlp.Wo.weight", "out_proj.weight", "linear2.weight")):
        return 3.0 / math.sqrt(layers)
    return 1.6 if name.endswith(("Wqkv.weight", "in_proj_weight")) else 1.0


def _wordpieces() -> dict[str, Any]:
    """The vocabulary in this package (30,522 pieces)."""
    source = resources.files("systone.models") / "data" / "minilm" / "tokenizer.json"
    fields: dict[str, Any] = json.loads(source.read_bytes())
    return fields


def _tokenizer() -> dict[str, Any]:
    """The part of that vocabulary that spells every text: characters, and short pieces.

    Ids are renumbered with the special tokens first."""
    fields = _wordpieces()
    kept = list(_kept(fields["model"]["vocab"]))
    fields["model"]["vocab"] = {piece: id for id, piece in enumerate([*_SPECIALS, *kept])}
    fields["added_tokens"] = [
        {
            "id": id,
            "content": token,
            "single_word": False,
            "lstrip": token == "[MASK]",
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for id, token in enumerate(_SPECIALS)
    ]
    fields["post_processor"] = fields["truncation"] = fields["padding"] = None
    return fields


def _kept(vocab: Iterable[str]) -> Iterable[str]:
    """Pieces of at most three characters, in the vocabulary's order."""
    return (
        piece
        for piece in vocab
        if piece not in _SPECIALS
        and not piece.startswith("[unused")
        and len(piece.removeprefix("##")) <= 3
    )


def _write_json(path: Path, fields: dict[str, Any]) -> None:
    path.write_text(json.dumps(fields, ensure_ascii=False) + "\n", encoding="utf-8")
