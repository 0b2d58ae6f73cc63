"""Read-outs of the GPU pass against transformers: FP32 oracle and bf16, same weights and rows.

Rows: {model, rows, length, rms_ratio, worst_row, logit_ratio, logit_error_in_spread}. rms_ratio is
ours over transformers', both root-mean-square errors of final hidden states against the oracle.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from oracles.pure_torch import forbid_tf32, qwen3_5_modeling
from scripts.gpu_suite.models import DEVICE, decision, recipe, served
from scripts.gpu_suite.wide_oracle import in_fp32, product_error
from systone.execute.gpu_arena import Room
from systone.weights.merged import ServedWeights
from systone.weights.synth.specs import Recipe
from tests.gpu.eager import EagerPasses
from tests.numerics import BF16_RMS_RATIO, BF16_ROW_RATIO
from tests.unit.nn.naive_tables import naive_tables

CASES = (("open-jev-9b", None, (64, 300, 1024)), ("open-jev-27b-v1.1", None, (64, 300, 1024)))
ORACLE_PRODUCT = 1e-5
OPTIONS = 4  # rows that share a state: lengths count the whole row
ROWS = 64
BATCH = 16


def accuracy_rows() -> Iterator[dict[str, Any]]:
    only = os.environ.get("MODELS", "open-jev")
    for name, layers, lengths in CASES:
        if only not in name:
            continue
        made = recipe(name, layers)
        weights = served(made)
        model = decision(weights)
        passes = EagerPasses(model, Room(tokens=8192, readouts=64, states=256), fast=True)
        official = official_model(made, weights)
        error = product_error(official.layers[0].mlp.down_proj.weight)
        assert error < ORACLE_PRODUCT, error
        for length in lengths:
            yield from _compare(name, made, passes, model.head_weight, official, length)
        del weights, model, passes, official
        gc.collect()
        torch.cuda.empty_cache()


def _compare(
    name: str, made: Recipe, passes: EagerPasses, head: Tensor, official: Any, length: int
) -> Iterator[dict[str, Any]]:
    rows = _rows(length)
    flat = [[t for segment in row for t in segment] for request in rows for row in request]
    ours = []
    for request in range(0, len(rows), 4):
        _, hidden = passes.run(naive_tables(rows[request : request + 4]))
        ours.append(hidden.float())
    ours = torch.cat(ours)
    theirs = final_hidden(official, torch.bfloat16, flat)
    oracle = final_hidden(official, torch.float32, flat)
    size = oracle.norm(dim=1)
    mine, other = (ours - oracle).norm(dim=1) / size, (theirs - oracle).norm(dim=1) / size
    logits = [(x.double() @ head[0].double()) for x in (ours, theirs, oracle)]
    spread = logits[2].std()
    errors = [(x - logits[2]).square().mean().sqrt() / spread for x in logits[:2]]
    rms = [x.square().mean().sqrt() for x in (mine, other)]
    yield {
        "model": f"{name} ({len(made.backbone.text_config()['layer_types'])} layers)",
        "rows": len(flat), "length": length,
        "rms_ratio": round((rms[0] / rms[1]).item(), 4),
        "worst_row": round((mine / other).max().item(), 3),
        "within": bool(rms[0] <= BF16_RMS_RATIO * rms[1])
        and bool((mine <= BF16_ROW_RATIO * other).all()),
        "ours_rms": round(rms[0].item(), 5), "transformers_rms": round(rms[1].item(), 5),
        "logit_error_in_spread": round(errors[0].item(), 5),
        "transformers_logit_error_in_spread": round(errors[1].item(), 5),
    }  # fmt: skip


def _rows(length: int) -> list[list[list[list[int]]]]:
    """Requests of OPTIONS rows: a state, a question, options of different lengths that end in rows
    of about `length` tokens; every row of a bucket has that length."""
    generator = torch.Generator().manual_seed(length)
    draw = lambda n: torch.randint(0, 200_000, (n,), generator=generator).tolist()  # noqa: E731
    made = []
    for _ in range(ROWS // OPTIONS):
        option = 23
        state, question = draw(length - 11 - option), draw(11)
        made.append([[state, question, draw(option)] for _ in range(OPTIONS)])
    return made


def official_model(made: Recipe, weights: ServedWeights) -> Any:
    """transformers' text model on the device, holding exactly these weights."""
    modeling = qwen3_5_modeling()
    forbid_tf32()
    from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig

    config = Qwen3_5TextConfig(**made.backbone.text_config())
    config._attn_implementation = "sdpa"
    with torch.device("meta"):
        model = modeling.Qwen3_5TextModel(config)
    model.load_state_dict(dict(weights.tensors), strict=True, assign=True)
    model.rotary_emb = modeling.Qwen3_5TextRotaryEmbedding(config=config).to(DEVICE)
    return model.eval()


@torch.inference_mode()
def final_hidden(model: Any, dtype: torch.dtype, rows: list[list[int]]) -> Tensor:
    """Last tokens' final hidden states [rows, h] in FP32, computed in `dtype`."""
    found: dict[int, Tensor] = {}
    with in_fp32(model) if dtype == torch.float32 else nullcontext():
        for length in sorted({len(row) for row in rows}):
            of_length = [i for i, row in enumerate(rows) if len(row) == length]
            for first in range(0, len(of_length), BATCH):
                chosen = of_length[first : first + BATCH]
                ids = torch.tensor([rows[i] for i in chosen], device=DEVICE)
                out = model(input_ids=ids, use_cache=False).last_hidden_state[:, -1]
                found |= dict(zip(chosen, out.float(), strict=True))
    return torch.stack([found[i] for i in range(len(rows))])
