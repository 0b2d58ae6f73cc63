"""Kev 1.0's head and answers, restated from the contract: FP32 head and softmax in torch, then
plain Python floats rounded to four decimals.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from oracles.kev_prompts import shown


def pointer_logits(
    options: torch.Tensor, decide: torch.Tensor, head: Mapping[str, torch.Tensor]
) -> torch.Tensor:
    """FP32 [K] from hidden states [K, h] of the options and [h] of the question."""
    query: torch.Tensor = torch.nn.functional.linear(
        decide.float(), head["q.weight"], head["q.bias"]
    )
    keys: torch.Tensor = torch.nn.functional.linear(
        options.float(), head["k.weight"], head["k.bias"]
    )
    return keys @ query / math.sqrt(len(query))


def answer(question: Mapping[str, Any], logits: Sequence[float], temperature: float) -> Any:
    """The answer object as it is sent, numbers rounded, fields in the wire's order."""
    z = torch.tensor(list(logits), dtype=torch.float32)
    p = torch.softmax(z / temperature, dim=0).double().tolist()
    if question["type"] == "noul":
        return {"type": "noul", "noul": round(p[1], 4)}
    total = sum(p)
    n = [x / total for x in p] if total else [1 / len(p)] * len(p)
    best = max(range(len(p)), key=lambda i: (p[i], -i))
    if question["type"] == "choice":
        names = list(question["criteria"])
        sure = 1.0 if len(p) == 1 else (max(n) - 1 / len(p)) / (1 - 1 / len(p))
        return {
            "type": "choice",
            "choice": names[best],
            "confidence": round(sure, 4),
            "probabilities": {name: round(x, 4) for name, x in zip(names, p, strict=True)},
        }
    wide = sum(abs(i - (len(p) - 1) / 2) for i in range(len(p))) / len(p)
    away = sum(x * abs(i - best) for i, x in enumerate(n))
    return {
        "type": "score",
        "score": round(sum(i * x for i, x in enumerate(p)), 4),
        "legend": {str(i): shown(level) for i, level in enumerate(question["criteria"])},
        "probabilities": {str(i): round(x, 4) for i, x in enumerate(p)},
        "confidence": 1.0 if len(p) == 1 else round(max(0.0, 1 - away / wide), 4),
    }


def output_tokens(answers: Mapping[str, Any], encode: Callable[[str], list[int]]) -> int:
    """The billing figure of a reply's answers."""
    return len(encode(json.dumps(answers)))
