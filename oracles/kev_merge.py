"""Which weights of a tiny Kev PEFT merges to another bf16 value than we do, and to which.

Two FP32 sums of a low-rank product in different orders round a weight or so in a million to the
neighbouring bf16 value. With the list, the same weights can be computed with on both sides.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from oracles.kev import OfficialKev
from systone.weights.served import load_served

__all__ = ["merge_differences"]


def merge_differences(directory: Path, official: OfficialKev) -> dict[str, Any]:
    """`weights`: name -> [flat index, PEFT's bf16 word as int16] pairs; `compared`: elements.

    `official`: the checkpoint in `directory`, loaded as "merged". Raises RuntimeError when the two
    have different tensors."""
    ours = load_served(directory, merge="single-rounding").tensors
    theirs = {name: tensor.bfloat16() for name, tensor in official.backbone.named_parameters()}
    if {n: t.shape for n, t in ours.items()} != {n: t.shape for n, t in theirs.items()}:
        raise RuntimeError(f"{directory}: other tensors than ours")
    found: dict[str, list[list[int]]] = {}
    for name, tensor in ours.items():
        words, wanted = (t.flatten().view(torch.int16) for t in (tensor, theirs[name]))
        places = (words != wanted).nonzero()[:, 0]
        if places.numel():
            found[name] = [[int(at), int(wanted[at])] for at in places]
    return {"compared": sum(t.numel() for t in ours.values()), "weights": found}
