"""Merging a package into one directory that can be served or moved on its own.

Owns the export's content: bf16 shards under bare names with a text config, the tokenizer,
the head (`open_jev_export.json` or `decision/head.pt`), then the manifest. One tensor is held at a
time; the directory appears only when it is whole.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from systone.errors import ConfigError
from systone.models.qwen_tokens import split_rule
from systone.weights.checkpoint import read_json
from systone.weights.directory import new_directory, refuse_filled
from systone.weights.export_file import write_export
from systone.weights.head_file import ScalarHead
from systone.weights.kev_export import write_kev_export
from systone.weights.manifest import Manifest, hash_files, list_files
from systone.weights.merge import Difference, MergeRule, blas_merge, check_rule, compare
from systone.weights.merged import merge_record, merged_tensor
from systone.weights.progress import Report, silent
from systone.weights.served import OpenPackage, is_export, open_package
from systone.weights.shapes import text_tensors
from systone.weights.writer import Planned, write_sharded

__all__ = ["Exported", "export"]

# Copied from the base when it has them: what transformers may read beside weights and config.
_COPIED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "generation_config.json",
)


@dataclass(frozen=True, slots=True)
class Exported:
    """`peft`: how the merged weights differ from one BLAS product per module (PEFT's way);
    None under a rule that PEFT doesn't merge by."""

    directory: Path
    num_bytes: int
    peft: Difference | None
    manifest: Manifest


def export(
    path: Path | str,
    out: Path | str,
    *,
    base: Path | str | None = None,
    base_revision: str | None = None,
    merge: str = "contract",
    device: torch.device | str = "cpu",
    max_shard_bytes: int = 4 << 30,
    progress: Report | None = None,
) -> Exported:
    """Write the merged, served form of a package to `out`, which must be new or empty.

    Arguments as `load_served`. Raises ConfigError for what can't be loaded or written.
    """
    path, out, report = Path(path), Path(out), progress or silent
    chosen = None if merge == "contract" else check_rule(merge)
    if chosen == "unrounded":
        raise ConfigError("merge rule 'unrounded' is for comparisons in memory; exports are bf16")
    if is_export(path):
        raise ConfigError(f"{path}: is merged already")
    refuse_filled(out)
    package = open_package(path, base=base, base_revision=base_revision, report=report)
    rule = chosen or package.info.family.merge
    merging = _Merging(package, rule, device)
    planned = [
        Planned(name, "BF16", expected.shape)
        for name, expected in text_tensors(package.base.config).items()
    ]
    with new_directory(out) as directory:
        hashes = write_sharded(
            directory,
            planned,
            merging.produce,
            max_shard_bytes=max_shard_bytes,
            report=report,
            step="merging",
        )
        _write_rest(directory, package)
        rest = list_files(directory) - hashes.keys()
        files = hashes | hash_files(directory, rest)
        manifest = _manifest(package, files, planned, merge_record(rule, device))
        manifest.write(directory)
    peft = merging.difference if rule == "double-rounding" else None
    return Exported(out, sum(tensor.num_bytes for tensor in planned), peft, manifest)


class _Merging:
    """Merges a tensor when its turn comes to be written, and counts how PEFT's would differ."""

    def __init__(self, package: OpenPackage, rule: MergeRule, device: torch.device | str) -> None:
        self.package, self.rule, self.device = package, rule, device
        self.difference = Difference(0, 0, 0)

    def produce(self, name: str) -> torch.Tensor:
        package = self.package
        made = merged_tensor(package.base, package.adapter, self.rule, name, self.device).cpu()
        if self.rule == "double-rounding" and name in package.adapter.pairs:
            a, b = package.adapter.pairs[name]
            weight = package.base.tensor(name).to(self.device)
            theirs = blas_merge(weight, a, b, package.adapter.scale).cpu()
            self.difference += compare(made, theirs)
        return made


def _manifest(
    package: OpenPackage,
    files: Mapping[str, str],
    planned: Sequence[Planned],
    record: Mapping[str, str],
) -> Manifest:
    info = package.info
    tokenizer_class, pattern = split_rule(package.base.directory)
    return Manifest(
        kind="export",
        model=info.family.name,
        model_id=info.family.base_id,
        base_revision=info.base_revision,
        checkpoint_revision=package.package_verdict.revision,
        temperature=info.temperature,
        max_length=info.max_length,
        synthetic=package.synthetic,
        merge=record,
        tokenizer={"class": tokenizer_class, "pattern": pattern},
        files=files,
        tensors={tensor.name: (tensor.dtype, tensor.shape) for tensor in planned},
    )


def _write_rest(directory: Path, package: OpenPackage) -> None:
    source = package.base.directory
    whole = read_json(source / "config.json")
    config = {
        **whole.get("text_config", whole),
        "architectures": ["Qwen3_5TextModel"],
        "dtype": "bfloat16",
        "model_type": "qwen3_5_text",
    }
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (directory / "config.json").write_text(text, encoding="utf-8")
    for name in _COPIED:
        if (source / name).is_file():
            shutil.copyfile(source / name, directory / name)
    info, head = package.info, package.head
    if not isinstance(head, ScalarHead):
        write_kev_export(
            directory,
            info.family,
            head,
            base_revision=info.base_revision,
            checkpoint_revision=package.package_verdict.revision,
            temperature=info.temperature,
        )
        return
    write_export(
        directory,
        head,
        model_id=info.family.base_id,
        base_revision=info.base_revision,
        checkpoint_revision=package.package_verdict.revision,
        temperature=info.temperature,
        max_length=info.max_length,
    )
