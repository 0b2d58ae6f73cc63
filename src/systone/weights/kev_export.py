"""A merged Kev: bf16 shards, config and tokenizer, and `decision/head.pt` as the package has it.

Owns that file: it lies in a folder of its own because weight files beside the shards are refused.
Its dict also names the checkpoint it was merged from. Knows no base and no LoRA.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from systone.errors import ConfigError
from systone.weights.families import Family
from systone.weights.head_file import Head, PointerHead, read_pickle
from systone.weights.kev_package import read_kev_fields, read_kev_head

__all__ = ["KevExport", "is_kev_export", "kev_head_fields", "read_kev_export", "write_kev_export"]

_HEAD = Path("decision", "head.pt")


@dataclass(frozen=True, slots=True)
class KevExport:
    """What the head's file says; see `export_file.Export` for the fields."""

    path: Path
    family: Family
    model_id: str
    base_revision: str
    checkpoint_revision: str
    temperature: float
    max_length: int

    def head(self, hidden: int) -> PointerHead:
        """Raises ConfigError when the head doesn't fit a backbone of that width."""
        return read_kev_head(self.path, self.family, hidden)


def is_kev_export(directory: Path) -> bool:
    """Whether the directory holds a merged Kev."""
    return (directory / _HEAD).is_file()


def read_kev_export(directory: Path) -> KevExport:
    """Raises ConfigError naming the file and the field that can't be right."""
    path = directory / _HEAD
    fields = read_kev_fields(path)
    revision = read_pickle(path).get("checkpoint_revision")
    if not isinstance(revision, str) or not revision:
        raise ConfigError(f"{path}: checkpoint_revision is {revision!r}, not a commit")
    return KevExport(
        path=path,
        family=fields.family,
        model_id=fields.family.base_id,
        base_revision=fields.base_revision,
        checkpoint_revision=revision,
        temperature=fields.temperature,
        max_length=fields.family.max_length,
    )


def write_kev_export(
    directory: Path,
    family: Family,
    head: Head,
    *,
    base_revision: str,
    checkpoint_revision: str,
    temperature: float,
) -> None:
    """Write the file below `directory`."""
    fields = kev_head_fields(family, head, base_revision, temperature)
    (directory / _HEAD.parent).mkdir()
    torch.save(fields | {"checkpoint_revision": checkpoint_revision}, directory / _HEAD)


def kev_head_fields(
    family: Family, head: Head, base_revision: str, temperature: float
) -> dict[str, object]:
    """The dict a `head.pt` of the family holds."""
    width = family.head_dim
    return {
        "base": family.base_id,
        "base_revision": base_revision,
        "head": {
            "q.weight": head.weight[:width].clone(),
            "q.bias": head.bias[:width].clone(),
            "k.weight": head.weight[width:].clone(),
            "k.bias": head.bias[width:].clone(),
        },
        "lora": family.rank,
        "head_dim": width,
        "option_isolation": False,
        "special_embeddings": False,
        "weights_dtype": "fp32",
        "temperature": temperature,
        "holdout": [],
    }
