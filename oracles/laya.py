"""A Laya-class checkpoint as transformers and torch run it: ModernBERT, then a torch encoder head.

FP32 on the CPU, rows alone or padded into one batch. Independent of `systone`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import ModernBertConfig, ModernBertModel

from oracles.laya_prompts import Row

__all__ = ["OfficialLaya", "load"]

KINDS = {"choice": 0, "score": 1, "noul": 2}


class OfficialLaya(nn.Module):
    """Submodules carry the checkpoint's tensor names, so a strict load consumes all of them."""

    def __init__(self, encoder: Any, layers: int, actions: int) -> None:
        super().__init__()
        d = encoder.config.hidden_size
        self.encoder = encoder
        layer = nn.TransformerEncoderLayer(
            d, max(1, d // 64), 4 * d, 0.1, batch_first=True, norm_first=True
        )
        self.head = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.type_emb = nn.Embedding(len(KINDS), d)
        self.scorer = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU(), nn.Linear(d, 1))
        self.act_head = nn.Sequential(nn.Linear(d + 4, 256), nn.GELU(), nn.Linear(256, actions))
        self.register_buffer("temperature", torch.ones(len(KINDS)))

    @torch.inference_mode()
    def logits(self, rows: Sequence[Row]) -> list[list[float]]:
        """Logits per row, the rows padded to the longest and run as one batch."""
        longest = max(len(row.ids) for row in rows)
        ids = torch.tensor([row.ids + [0] * (longest - len(row.ids)) for row in rows])
        real = torch.tensor([[i < len(row.ids) for i in range(longest)] for row in rows])
        kinds = torch.tensor([KINDS[row.kind] for row in rows])
        hidden = self.encoder(input_ids=ids, attention_mask=real.long()).last_hidden_state
        hidden = self.head(hidden + self.type_emb(kinds)[:, None], src_key_padding_mask=~real)
        scores: Tensor = self.scorer(hidden)[..., 0]
        return [scores[i, row.markers].tolist() for i, row in enumerate(rows)]


def load(directory: Path) -> OfficialLaya:
    """Load strictly; RuntimeError when a tensor is missing or left over."""
    agent = json.loads((directory / "rl_agent_config.json").read_text())
    fields = json.loads((directory / "encoder" / "config.json").read_text())
    build: Any = ModernBertModel._from_config
    encoder = build(ModernBertConfig(**fields), attn_implementation="sdpa")
    model = OfficialLaya(encoder, agent["head_layers"], len(agent["act_costs"]) + 1)
    tensors = {n: t.float() for n, t in load_file(directory / "model.safetensors").items()}
    model.load_state_dict(tensors, strict=True)
    return model.eval()
