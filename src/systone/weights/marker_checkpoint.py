"""A marker encoder's `model.safetensors`: proven, opened, checked tensor by tensor.

Owns the strict load: every stored tensor is served, or named as not served, and has its shape.
Knows no prompts. Proof is a manifest, the hub client's digests, or the file's own SHA-256.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from systone.errors import ConfigError
from systone.nn.encoder_config import EncoderConfig, MarkerConfig
from systone.nn.encoder_weights import not_served, served_tensors
from systone.weights.checkpoint import refuse_shadows
from systone.weights.hub import check_digests, hub_files
from systone.weights.manifest import MANIFEST_NAME, Manifest, file_sha256
from systone.weights.progress import Report, silent
from systone.weights.safetensors_file import Entry, SafetensorsFile

__all__ = ["WEIGHTS_NAME", "Proof", "open_weights", "prove"]

WEIGHTS_NAME = "model.safetensors"
_FLOATS = ("F32", "F16", "BF16")


@dataclass(frozen=True, slots=True)
class Proof:
    """What is known of a directory's origin. `how`: one phrase for the log."""

    revision: str
    how: str
    model_id: str = ""
    synthetic: bool = False


def prove(directory: Path, report: Report = silent) -> Proof:
    """Verify the directory against what came with it. Raises ConfigError naming the wrong file.

    Without a manifest or a hub client's record, the revision is the weights' own hash."""
    refuse_shadows(directory, {WEIGHTS_NAME})
    if (directory / MANIFEST_NAME).exists():
        manifest = Manifest.read(directory)
        manifest.verify(directory, report)
        return Proof(
            manifest.checkpoint_revision, "manifest verified", manifest.model_id, manifest.synthetic
        )
    hub = hub_files(directory)
    if hub is not None:
        check_digests(directory, hub, report)
        return Proof(hub.revision, "the hub client's digests verified")
    digest = file_sha256(directory / WEIGHTS_NAME)
    return Proof(f"sha256:{digest[:16]}", "no manifest: nothing to verify the files against")


def open_weights(directory: Path, body: EncoderConfig, head: MarkerConfig) -> SafetensorsFile:
    """The file, once each of its tensors is accounted for. Raises ConfigError."""
    path = directory / WEIGHTS_NAME
    file = SafetensorsFile(path)
    served, beside = served_tensors(body, head), not_served(body, head)
    for name in served:
        if name not in file.entries:
            raise ConfigError(f"{path}: tensor {name!r} is missing")
    for name, entry in file.entries.items():
        if name not in served and name not in beside:
            raise ConfigError(f"{path}: tensor {name!r} is not part of this model")
        _check(path, name, entry, served | beside)
    for name in served:
        if not bool(torch.isfinite(file.tensor(name)).all()):
            raise ConfigError(f"{path}: tensor {name!r} has values that are not finite")
    return file


def _check(path: Path, name: str, entry: Entry, shapes: Mapping[str, tuple[int, ...]]) -> None:
    if entry.shape != shapes[name]:
        raise ConfigError(
            f"{path}: tensor {name!r} has shape {list(entry.shape)}, not {list(shapes[name])}"
        )
    if entry.dtype not in _FLOATS:
        raise ConfigError(f"{path}: tensor {name!r} has dtype {entry.dtype}, not a float")
