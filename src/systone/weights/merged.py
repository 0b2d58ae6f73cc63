"""Weights as a model is served with them: LoRA merged, one dtype, on a device, with provenance.

Owns the message and the one pass that makes it, tensor by tensor; the model is never held twice.
Cast rule: everything is served in bfloat16, also tensors a base stores as F32, because the
official bf16 loads and merged exports cast them too; the rule "unrounded" casts to float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from systone import __version__
from systone.nn.config import TextConfig
from systone.weights.head_file import Head
from systone.weights.lora import Adapter
from systone.weights.merge import ACCUMULATION, MergeRule, merge
from systone.weights.progress import Report
from systone.weights.shapes import text_tensors

__all__ = ["Provenance", "ServedWeights", "Source", "gather", "merge_record", "merged_tensor"]


class Source(Protocol):
    """Where base tensors come from: a checkpoint's files, or a synthesiser."""

    @property
    def config(self) -> TextConfig: ...

    @property
    def views(self) -> bool:
        """Whether `tensor` gives views on files rather than memory of its own."""
        ...

    def tensor(self, name: str) -> torch.Tensor:
        """The tensor with that canonical name, as stored."""
        ...


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where served weights came from and how far that was verified.

    `verified`: what proved the files; `merge`: rule, device, accumulation and library."""

    package: str  # family name, for example open-jev-9b
    checkpoint_revision: str
    synthetic: bool
    verified: str
    merge: Mapping[str, str]
    source: str  # directory, or how the weights were made


@dataclass(frozen=True, slots=True, eq=False)
class ServedWeights:
    """`tensors` by canonical name. `tokenizer`: the directory to load the tokenizer from."""

    config: TextConfig
    tensors: Mapping[str, torch.Tensor]
    head_weight: torch.Tensor  # float32 [1, hidden], or a pointer head's [2d, hidden]: q, then k
    head_bias: torch.Tensor  # float32 [1] or [2d]
    temperature: float
    max_length: int
    model_id: str  # the base's name, as replies carry it
    base_revision: str
    tokenizer: Path | None
    provenance: Provenance

    @property
    def num_bytes(self) -> int:
        """Of the text tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())


def merged_tensor(
    source: Source,
    adapter: Adapter | None,
    rule: MergeRule,
    name: str,
    device: torch.device | str = "cpu",
) -> torch.Tensor:
    """One served tensor on `device`, its memory its own. `adapter` None: merged already."""
    stored = source.tensor(name)
    if adapter is not None and name in adapter.pairs:
        return merge(stored.to(device), *adapter.pairs[name], adapter.scale, rule)
    kind = torch.float32 if rule == "unrounded" else torch.bfloat16
    # A view must be copied: the file may change under it.
    return stored.to(device=device, dtype=kind, copy=source.views)


def merge_record(rule: MergeRule, device: torch.device | str) -> dict[str, str]:
    """How a merge was done, for manifests and provenance."""
    return {
        "rule": rule,
        "device": torch.device(device).type,
        "accumulation": ACCUMULATION,
        "torch": str(torch.__version__),
        "systone": __version__,
    }


def gather(
    source: Source,
    adapter: Adapter | None,
    head: Head,
    rule: MergeRule,
    device: torch.device | str,
    report: Report,
) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
    """All served tensors and the head on `device`, one tensor at a time."""
    table = text_tensors(source.config)
    width = 4 if rule == "unrounded" else 2  # bytes per element
    total = width * sum(math.prod(expected.shape) for expected in table.values())
    tensors: dict[str, torch.Tensor] = {}
    done = 0
    for name in table:
        tensors[name] = merged_tensor(source, adapter, rule, name, device)
        done += tensors[name].nbytes
        report("loading", done, total)
    return tensors, head.weight.to(device), head.bias.to(device)
