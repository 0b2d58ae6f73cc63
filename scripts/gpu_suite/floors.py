"""What the device can do at best: matrix products alone by token count, and its two ceilings.

Writes JSON: {commit, machine, ceilings, floors: {model: [{tokens, ms, tflops, gbytes_s}]}}. `ms`:
one graph of a forward's products, the faster of default cuBLAS and ours, median of 3 replays; the
last layer's for READOUTS rows. Bytes are weights and activations, each moved once.

python3 -m scripts.gpu_suite.floors --out FILE [--commit HASH] MODEL[:STEP]...
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch

from scripts.gpu_suite.forward import products_alone
from scripts.gpu_suite.models import decision, recipe, served
from scripts.gpu_suite.timing import machine, replay_ms
from systone.execute.buckets import token_buckets
from systone.execute.gpu_gemm import projections
from systone.nn.decision import DecisionModel

MOST = 4096
READOUTS = 16
SQUARE = 8192
COPIED = 2**31


def ceilings() -> dict[str, float]:
    """A large square product in bf16, and a copy within device memory (read and write)."""
    a, b = (torch.randn(SQUARE, SQUARE, device="cuda").bfloat16() for _ in range(2))
    product = torch.empty_like(a)
    source = torch.empty(COPIED, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    for _ in range(3):
        torch.mm(a, b, out=product)
        target.copy_(source)
    mm_ms = median(replay_ms(lambda: torch.mm(a, b, out=product)) for _ in range(5))
    copy_ms = median(replay_ms(lambda: target.copy_(source)) for _ in range(5))
    return {
        "bf16_tflops": round(2 * SQUARE**3 / mm_ms / 1e9, 1),
        "copy_gbytes_s": round(2 * COPIED / copy_ms / 1e6, 1),
    }


def floor_rows(model: DecisionModel, step: int) -> Iterator[dict[str, float]]:
    """The first eight token buckets, every `step`-th of all, and the last."""
    buckets = token_buckets(MOST)
    stream = torch.cuda.Stream()
    for tokens in sorted({*buckets[::step], *buckets[:8], buckets[-1]}):
        call = products_alone(model, tokens, READOUTS, stream, calls=1)
        with torch.cuda.stream(stream):
            ms = median(replay_ms(call, calls=1) for _ in range(3))
        flops, moved = work(model, tokens)
        yield {
            "tokens": tokens,
            "ms": round(ms, 4),
            "tflops": round(flops / ms / 1e9, 1),
            "gbytes_s": round(moved / ms / 1e6, 1),
        }


def work(model: DecisionModel, tokens: int) -> tuple[int, int]:
    """Floating-point operations and bytes of a forward's products."""
    config = model.stack.config
    weights = projections(model.stack.weights, 2 * config.num_heads * config.head_dim)
    trunk, last = weights[: 4 * (config.num_layers - 1)], weights[4 * (config.num_layers - 1) :]
    _, out_proj, gate_up, down, queries, keys = last
    flops = moved = 0
    for rows, group in ((tokens, [*trunk, keys]), (READOUTS, [queries, out_proj, gate_up, down])):
        for weight in group:
            outputs, inputs = weight.shape
            flops += 2 * rows * outputs * inputs
            moved += 2 * (outputs * inputs + rows * (outputs + inputs))
    return flops, moved


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    report: dict[str, Any] = {"commit": args.commit, "machine": machine(), "ceilings": ceilings()}
    print(report["ceilings"], flush=True)
    report["floors"] = {}
    for asked in args.models:
        name, _, step = asked.partition(":")
        model = decision(served(recipe(name)))
        report["floors"][name] = rows = []
        for row in floor_rows(model, int(step or 1)):
            rows.append(row)
            print(name, *row.values(), flush=True)
        args.out.write_text(json.dumps(report, indent=1))
        del model
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
