"""Pinning: writing a manifest for a directory an operator decides to trust as it is now.

Owns the decision which kind of directory it is; everything a load would check without a manifest
is checked first.
"""

from __future__ import annotations

from pathlib import Path

from systone.errors import ConfigError
from systone.models.qwen_tokens import split_rule
from systone.weights.checkpoint import open_checkpoint
from systone.weights.export_file import EXPORT_NAME, read_export
from systone.weights.families import FAMILIES
from systone.weights.hub import hub_files
from systone.weights.manifest import MANIFEST_NAME, Manifest, hash_files, list_files
from systone.weights.package import layout_of, read_info
from systone.weights.progress import Report, silent

__all__ = ["pin"]


def pin(directory: Path, revision: str | None = None, report: Report = silent) -> Manifest:
    """Write `systone_manifest.json` into a base, package or export that has none.

    `revision`: of the base or of the package's checkpoint, where nothing else records it. Raises
    ConfigError for a directory that is none of these, or carries a manifest already.
    """
    if (directory / MANIFEST_NAME).exists():
        raise ConfigError(f"{directory / MANIFEST_NAME}: already there")
    files = hash_files(directory, list_files(directory), report)
    if (directory / EXPORT_NAME).exists():
        made = _export(directory, files)
    elif (directory / "checkpoint" / "model.json").exists():
        made = _package(directory, files, directory / "checkpoint", revision)
    elif layout_of(directory) is not None:
        made = _package(directory, files, directory, revision)
    else:
        made = _base(directory, files, revision)
    made.write(directory)
    return made


def _export(directory: Path, files: dict[str, str]) -> Manifest:
    export = read_export(directory)
    checkpoint = open_checkpoint(directory)
    export.head(checkpoint.config.hidden_size)
    tokenizer_class, pattern = split_rule(directory)
    return Manifest(
        kind="export",
        model=export.family.name,
        model_id=export.model_id,
        base_revision=export.base_revision,
        checkpoint_revision=export.checkpoint_revision,
        temperature=export.temperature,
        max_length=export.max_length,
        merge={"rule": "not recorded"},
        tokenizer={"class": tokenizer_class, "pattern": pattern},
        files=files,
        tensors={name: (entry.dtype, entry.shape) for name, entry in checkpoint.stored.items()},
    )


def _package(
    directory: Path, files: dict[str, str], checkpoint: Path, revision: str | None
) -> Manifest:
    info = read_info(checkpoint)
    if revision is None:
        raise ConfigError(f"{directory}: say which revision of the package this is (--revision)")
    return Manifest(
        kind="package",
        model=info.family.name,
        model_id=info.family.base_id,
        base_revision=info.base_revision,
        checkpoint_revision=revision,
        temperature=info.temperature,
        max_length=info.max_length,
        files=files,
    )


def _base(directory: Path, files: dict[str, str], revision: str | None) -> Manifest:
    checkpoint = open_checkpoint(directory)
    hub = hub_files(directory)
    known = hub.revision if hub is not None else revision
    if known is None:
        raise ConfigError(f"{directory}: say which revision of the base this is (--revision)")
    owners = [f for f in FAMILIES.values() if f.pins.base_revision == known]
    tokenizer_class, pattern = split_rule(directory)
    return Manifest(
        kind="base",
        model="",
        model_id=owners[0].base_id if owners else "",
        base_revision=known,
        tokenizer={"class": tokenizer_class, "pattern": pattern},
        files=files,
        tensors={name: (entry.dtype, entry.shape) for name, entry in checkpoint.stored.items()},
    )
