"""Loading what a model is served from: a package with its base, or a merged export.

Owns the order of a verified load: find the parts, prove them, open and check them, merge tensor
by tensor onto the device. The parts themselves live in the modules it calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from systone.errors import ConfigError
from systone.weights.checkpoint import Checkpoint, open_checkpoint
from systone.weights.export_file import EXPORT_NAME, Export, read_export, verify_export
from systone.weights.head_file import Head
from systone.weights.kev_export import KevExport, is_kev_export, read_kev_export
from systone.weights.lora import Adapter
from systone.weights.manifest import MANIFEST_NAME, Manifest
from systone.weights.merge import check_rule
from systone.weights.merged import Provenance, ServedWeights, gather, merge_record
from systone.weights.package import PackageInfo, layout_of, read_info, read_parts
from systone.weights.progress import Report, silent
from systone.weights.verify import Verdict, verify_base, verify_package

__all__ = ["OpenPackage", "is_export", "load_served", "open_package", "prove"]


@dataclass(frozen=True, slots=True, eq=False)
class OpenPackage:
    """A proven package on its proven base, opened and checked, nothing merged yet."""

    info: PackageInfo
    base: Checkpoint
    adapter: Adapter
    head: Head
    package_verdict: Verdict
    base_verdict: Verdict

    @property
    def verified(self) -> str:
        return f"{self.package_verdict.how}; {self.base_verdict.how}"

    @property
    def synthetic(self) -> bool:
        return self.package_verdict.synthetic or self.base_verdict.synthetic


def load_served(
    path: Path | str,
    *,
    base: Path | str | None = None,
    base_revision: str | None = None,
    merge: str = "contract",
    device: torch.device | str = "cpu",
    progress: Report | None = None,
) -> ServedWeights:
    """Load, prove and merge onto `device`; every tensor's memory is its own.

    `path`: a directory with `base/` and `package/` (as `systone synth` writes), a package (then
    `base` is needed), or an export (then `base` must be left out and `merge` is what the export
    was made with). `merge`: see `merge.MergeRule`, or "contract": the family's own.
    `base_revision`: the operator's word for a base that carries no proof of its revision. Raises
    ConfigError: one line naming file and fault.
    """
    path, report = Path(path), progress or silent
    chosen = None if merge == "contract" else check_rule(merge)
    if is_export(path):
        return _load_export(path, base, device, report)
    package = open_package(path, base=base, base_revision=base_revision, report=report)
    info = package.info
    rule = chosen or info.family.merge
    tensors, weight, bias = gather(
        package.base, package.adapter, package.head, rule, device, report
    )
    return ServedWeights(
        config=package.base.config,
        tensors=tensors,
        head_weight=weight,
        head_bias=bias,
        temperature=info.temperature,
        max_length=info.max_length,
        model_id=info.family.base_id,
        base_revision=info.base_revision,
        tokenizer=package.base.directory,
        provenance=Provenance(
            package=info.family.name,
            checkpoint_revision=package.package_verdict.revision,
            synthetic=package.synthetic,
            verified=package.verified,
            merge=merge_record(rule, device),
            source=str(path),
        ),
    )


def is_export(path: Path) -> bool:
    """Whether the directory holds merged weights."""
    if (path / EXPORT_NAME).exists() or is_kev_export(path):
        return True
    return (path / MANIFEST_NAME).exists() and Manifest.read(path).kind == "export"


def open_package(
    path: Path,
    *,
    base: Path | str | None = None,
    base_revision: str | None = None,
    report: Report = silent,
) -> OpenPackage:
    """Find, prove, open and check a package and its base. Raises ConfigError."""
    root, base_directory = _find(path, base)
    checkpoint = root / "checkpoint" if (root / "checkpoint").is_dir() else root
    info = read_info(checkpoint)
    package_verdict = verify_package(root, info, report)
    base_verdict = verify_base(base_directory, info.base_revision, base_revision, report)
    opened = open_checkpoint(base_directory)
    if base_verdict.manifest is not None:
        base_verdict.manifest.check_tensors(base_directory, opened.stored)
    adapter, head = read_parts(info, opened.config)
    return OpenPackage(info, opened, adapter, head, package_verdict, base_verdict)


def _find(path: Path, base: Path | str | None) -> tuple[Path, Path]:
    """The package's root and its base's directory."""
    if not path.is_dir():
        raise ConfigError(f"{path}: no such directory")
    whole = (path / "package").is_dir() and (path / "base").is_dir()
    root = path / "package" if whole else path
    if layout_of(root / "checkpoint") is None and layout_of(root) is None:
        raise ConfigError(
            f"{path}: neither a package (checkpoint/model.json, or head.pt beside an adapter) nor "
            "an export"
        )
    if base is not None:
        return root, Path(base)
    if not whole:
        raise ConfigError(f"{path}: a package needs its base (--base DIR)")
    return root, path / "base"


def prove(path: Path, base: Path | None, base_revision: str | None, report: Report = silent) -> str:
    """Every check of a load, without loading; says in one line what was proven. Raises
    ConfigError."""
    if not is_export(path):
        package = open_package(path, base=base, base_revision=base_revision, report=report)
        return f"{package.info.family.name}: {package.verified}"
    opened = _open_export(path, base, report)
    return f"{opened.export.family.name}: {opened.verdict.how}"


@dataclass(frozen=True, slots=True)
class _OpenExport:
    """A proven export, opened and checked, nothing read yet."""

    export: Export | KevExport
    verdict: Verdict
    checkpoint: Checkpoint
    head: Head


def _open_export(path: Path, base: Path | str | None, report: Report) -> _OpenExport:
    if base is not None:
        raise ConfigError(f"{path}: is merged already and takes no base")
    export = read_kev_export(path) if is_kev_export(path) else read_export(path)
    verdict = verify_export(path, export, report)
    checkpoint = open_checkpoint(path)
    if verdict.manifest is not None:
        verdict.manifest.check_tensors(path, checkpoint.stored)
    return _OpenExport(export, verdict, checkpoint, export.head(checkpoint.config.hidden_size))


def _load_export(
    path: Path, base: Path | str | None, device: torch.device | str, report: Report
) -> ServedWeights:
    opened = _open_export(path, base, report)
    export, verdict, checkpoint = opened.export, opened.verdict, opened.checkpoint
    # No adapter is left, so the rule only says what the tensors are cast to.
    tensors, weight, bias = gather(checkpoint, None, opened.head, "double-rounding", device, report)
    return ServedWeights(
        config=checkpoint.config,
        tensors=tensors,
        head_weight=weight,
        head_bias=bias,
        temperature=export.temperature,
        max_length=export.max_length,
        model_id=export.model_id,
        base_revision=export.base_revision,
        tokenizer=path,
        provenance=Provenance(
            package=export.family.name,
            checkpoint_revision=export.checkpoint_revision,
            synthetic=verdict.synthetic,
            verified=verdict.how,
            merge=verdict.manifest.merge if verdict.manifest else {"rule": "not recorded"},
            source=str(path),
        ),
    )
