"""Whether a base or a package is what it claims to be, before anything is taken from it.

Owns the order of proofs: a manifest of our own first, then official pins, then what a hub client
recorded; without any of them a directory is refused. Reads no tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from systone.errors import ConfigError
from systone.weights.checkpoint import refuse_shadows
from systone.weights.hub import HubFiles, check_digests, hub_files
from systone.weights.manifest import MANIFEST_NAME, Manifest, hash_files, list_files
from systone.weights.package import FILES, KEV_FILES, PackageInfo
from systone.weights.progress import Report, silent

__all__ = ["Verdict", "verify_base", "verify_package"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`how`: one clause for provenance; `manifest`: the one it was checked against, if any."""

    revision: str
    synthetic: bool
    how: str
    manifest: Manifest | None = None


def verify_package(root: Path, info: PackageInfo, report: Report = silent) -> Verdict:
    """`root` holds the package's manifest, if it has one. Raises ConfigError naming the file."""
    if (root / MANIFEST_NAME).exists():
        manifest = Manifest.read(root)
        if manifest.kind != "package":
            raise ConfigError(f"{root / MANIFEST_NAME}: is of a {manifest.kind}, not of a package")
        manifest.verify(root, report)
        _agree(root, manifest, info)
        if manifest.checkpoint_revision == info.family.pins.checkpoint_revision:
            _check_pins(info, report)
        revision, synthetic = manifest.checkpoint_revision, manifest.synthetic
        return Verdict(revision, synthetic, "package by its manifest", manifest)
    pins = info.family.pins
    if info.base_revision != pins.base_revision:
        where = "head.pt" if info.family.layout == "kev" else "model.json"
        raise ConfigError(
            f"{info.checkpoint / where}: base revision {info.base_revision} is not "
            f"the official {pins.base_revision}, and there is no {MANIFEST_NAME}"
        )
    if info.family.layout == "kev" and (hub := hub_files(root)) is not None:
        return _by_hub(root, hub, report)
    if not pins.files:
        raise ConfigError(
            f"{root}: no digests of {pins.checkpoint_id} are known; "
            f"if you trust these files, pin them: systone verify-weights --pin {root}"
        )
    _check_pins(info, report)
    return Verdict(pins.checkpoint_revision, False, "package by the official digests")


def _by_hub(root: Path, hub: HubFiles, report: Report) -> Verdict:
    """A package as a hub client downloaded it: the revision is the one the client recorded."""
    refuse_shadows(root, set(KEV_FILES))
    for name in KEV_FILES:
        if name not in hub.digests:
            raise ConfigError(f"{root / name}: the hub's client recorded no digest for it")
    check_digests(root, hub, report)
    return Verdict(hub.revision, False, f"package by the hub's digests ({len(hub.digests)} files)")


def verify_base(
    directory: Path, wanted: str, stated: str | None = None, report: Report = silent
) -> Verdict:
    """`wanted`: the revision the package was trained on; `stated`: the operator's own word for
    a directory that carries no proof of its revision. Raises ConfigError."""
    if (directory / MANIFEST_NAME).exists():
        manifest = Manifest.read(directory)
        if manifest.kind != "base":
            raise ConfigError(f"{directory / MANIFEST_NAME}: is of a {manifest.kind}, not a base")
        _same_revision(directory, manifest.base_revision, wanted)
        manifest.verify(directory, report)
        return Verdict(wanted, manifest.synthetic, "base by its manifest", manifest)
    if (hub := hub_files(directory)) is not None:
        _same_revision(directory, hub.revision, wanted)
        check_digests(directory, hub, report)
        return Verdict(wanted, False, f"base by the hub's digests ({len(hub.digests)} files)")
    if stated is None:
        raise ConfigError(
            f"{directory}: nothing says which revision this base is; if you know that it is "
            f"{wanted}, say so (--base-revision) or pin it (systone verify-weights --pin)"
        )
    _same_revision(directory, stated, wanted)
    return Verdict(wanted, False, "base on the operator's word")


def _same_revision(directory: Path, found: str, wanted: str) -> None:
    if found != wanted:
        raise ConfigError(
            f"{directory}: base revision {found}, but the package was trained on {wanted}"
        )


def _agree(root: Path, manifest: Manifest, info: PackageInfo) -> None:
    claims = {
        "model": (manifest.model, info.family.name),
        "model_id": (manifest.model_id, info.family.base_id),
        "base_revision": (manifest.base_revision, info.base_revision),
        "temperature": (manifest.temperature, info.temperature),
        "max_length": (manifest.max_length, info.max_length),
    }
    for field, (claimed, found) in claims.items():
        if claimed != found:
            raise ConfigError(
                f"{root / MANIFEST_NAME}: {field} is {claimed!r}, the package says {found!r}"
            )


def _check_pins(info: PackageInfo, report: Report) -> None:
    pins, checkpoint = info.family.pins, info.checkpoint
    list_files(checkpoint)  # refuses links that lead out
    if info.family.layout == "kev":
        refuse_shadows(checkpoint, set(KEV_FILES))
        return  # no whole digests and, for two sizes, only rounded temperatures are published
    refuse_shadows(checkpoint, {name for name in FILES if "/" not in name})
    refuse_shadows(checkpoint / "adapter", {Path(name).name for name in FILES if "/" in name})
    if info.temperature != pins.temperature:
        raise ConfigError(
            f"{checkpoint / 'temperature.json'}: temperature is {info.temperature}, "
            f"the official one {pins.temperature}"
        )
    for name in pins.files:
        if not (checkpoint / name).is_file():
            raise ConfigError(f"{checkpoint / name}: missing")
    for name, digest in hash_files(checkpoint, pins.files, report).items():
        if digest != pins.files[name]:
            raise ConfigError(f"{checkpoint / name}: SHA-256 differs from the official one")
