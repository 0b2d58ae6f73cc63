"""`open_jev_export.json`: the native merged layout, read, checked and written.

Owns the file and its head; knows no base, no LoRA. Next to it lie bf16 shards, config and
tokenizer. Format "open-jev-text-merged/1".
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from systone.errors import ConfigError
from systone.weights.checkpoint import read_json
from systone.weights.families import Family, by_base
from systone.weights.head_file import ScalarHead
from systone.weights.manifest import MANIFEST_NAME, Manifest
from systone.weights.package import read_temperature
from systone.weights.progress import Report
from systone.weights.verify import Verdict

__all__ = ["EXPORT_NAME", "Export", "read_export", "verify_export", "write_export"]

EXPORT_NAME = "open_jev_export.json"
_FORMAT = "open-jev-text-merged/1"
# The chat turn around a user message, as exports carry it for readers without a template.
CHAT_PREFIX = "<|im_start|>user\n"
CHAT_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


@dataclass(frozen=True, slots=True)
class Export:
    """The file's content; `head_weight` is flat, [hidden]."""

    path: Path
    family: Family
    model_id: str
    base_revision: str
    checkpoint_revision: str
    temperature: float
    max_length: int
    head_weight: tuple[float, ...]
    head_bias: float

    def head(self, hidden: int) -> ScalarHead:
        """Raises ConfigError when the head is not one of `hidden` values."""
        if len(self.head_weight) != hidden:
            raise ConfigError(
                f"{self.path}: head_weight has {len(self.head_weight)} values, not {hidden}"
            )
        weight = torch.tensor(self.head_weight, dtype=torch.float64).to(torch.float32)
        bias = torch.tensor([self.head_bias], dtype=torch.float64).to(torch.float32)
        return ScalarHead(weight.view(1, hidden), bias)


def read_export(directory: Path) -> Export:
    """Raises ConfigError naming the file and the field that can't be right."""
    path = directory / EXPORT_NAME
    fields = read_json(path)
    if fields.get("format") != _FORMAT:
        raise ConfigError(f"{path}: format is {fields.get('format')!r}, not {_FORMAT!r}")
    for name, text in (("chat_prefix", CHAT_PREFIX), ("chat_suffix", CHAT_SUFFIX)):
        if fields.get(name) != text:
            raise ConfigError(f"{path}: {name} is not the one this model is served with")
    max_length = fields.get("max_length")
    if type(max_length) is not int or max_length < 1:
        raise ConfigError(f"{path}: max_length is {max_length!r}, not a positive integer")
    weight, bias = fields.get("head_weight"), fields.get("head_bias")
    if not isinstance(weight, list):
        raise ConfigError(f"{path}: head_weight is not a list of numbers")
    bias = bias if isinstance(bias, list) else [bias]
    if len(bias) != 1 or not all(_finite(value) for value in [*weight, *bias]):
        raise ConfigError(f"{path}: head_weight and head_bias must be finite numbers")
    return Export(
        path=path,
        family=by_base(str(fields.get("model_id")), str(path)),
        model_id=str(fields["model_id"]),
        base_revision=_commit(path, fields, "base_revision"),
        checkpoint_revision=_commit(path, fields, "checkpoint_revision"),
        temperature=read_temperature(path, "temperature"),
        max_length=max_length,
        head_weight=tuple(weight),
        head_bias=float(bias[0]),
    )


class Claims(Protocol):
    """What any export says of itself, to be held against its manifest."""

    @property
    def path(self) -> Path: ...
    @property
    def family(self) -> Family: ...
    @property
    def base_revision(self) -> str: ...
    @property
    def checkpoint_revision(self) -> str: ...


def verify_export(directory: Path, export: Claims, report: Report) -> Verdict:
    """An export is proven by its manifest alone: official pins say nothing about merged files.

    Raises ConfigError, also when there is no manifest."""
    if not (directory / MANIFEST_NAME).exists():
        raise ConfigError(
            f"{directory}: a merged export without {MANIFEST_NAME}; "
            f"if you trust these files, pin them: systone verify-weights --pin {directory}"
        )
    manifest = Manifest.read(directory)
    if manifest.kind != "export":
        raise ConfigError(f"{directory / MANIFEST_NAME}: is of a {manifest.kind}, not an export")
    manifest.verify(directory, report)
    for field in ("model_id", "base_revision", "checkpoint_revision", "temperature", "max_length"):
        if getattr(manifest, field) != getattr(export, field):
            raise ConfigError(
                f"{export.path}: {field} is {getattr(export, field)!r}, "
                f"the manifest says {getattr(manifest, field)!r}"
            )
    pins = export.family.pins
    official = export.checkpoint_revision == pins.checkpoint_revision
    if official and export.base_revision != pins.base_revision:
        raise ConfigError(
            f"{export.path}: base revision {export.base_revision} is not "
            f"the official {pins.base_revision}"
        )
    return Verdict(
        export.checkpoint_revision, manifest.synthetic, "export by its manifest", manifest
    )


def write_export(directory: Path, head: ScalarHead, **fields: Any) -> None:
    """Write the file. `fields`: model_id, base_revision, checkpoint_revision, temperature,
    max_length. float32 values survive the way through JSON exactly."""
    document = {
        "format": _FORMAT,
        **fields,
        "chat_prefix": CHAT_PREFIX,
        "chat_suffix": CHAT_SUFFIX,
        "head_weight": head.weight.view(-1).tolist(),
        "head_bias": float(head.bias[0]),
    }
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    (directory / EXPORT_NAME).write_text(text, encoding="utf-8")


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _commit(path: Path, fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{path}: {name} is {value!r}, not a commit")
    return value
