"""The decision-model packages this loader knows: their adapters, heads and official pins.

Owns facts as a table, one row a package; a new package is a new row. Knows no files. Sources: the
official repositories at the revisions named here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from systone.errors import ConfigError
from systone.nn.config import TextConfig
from systone.weights.merge import MergeRule
from systone.weights.shapes import Expected, text_tensors

__all__ = ["FAMILIES", "Family", "Layout", "Pins", "by_base", "by_name"]

# How a package lies on disk and what its head is: a scalar in files of its own below
# `checkpoint/` (open-jev), or a pointer in one dict beside the adapter (kev).
Layout = Literal["open-jev", "kev"]


@dataclass(frozen=True, slots=True)
class Pins:
    """An official release. `files`: path below `checkpoint/` -> SHA-256, where published."""

    checkpoint_id: str
    checkpoint_revision: str
    base_revision: str
    temperature: float
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Family:
    """A package's layout: a LoRA on the text backbone, and a head in `head.pt`.

    `merge`: the rule its authors merge by; `head_dim`: width of a pointer head's halves."""

    name: str
    base_id: str
    method: str
    rank: int
    alpha: int
    targets: tuple[str, ...]  # module names, wherever a layer has them
    max_length: int
    pins: Pins
    layout: Layout = "open-jev"
    merge: MergeRule = "double-rounding"
    head_dim: int = 0

    def adapted(self, config: TextConfig) -> dict[str, Expected]:
        """Canonical names of the weights this package's adapter changes, in layer order."""
        return {
            name: expected
            for name, expected in text_tensors(config).items()
            if name.startswith("layers.") and name.split(".")[-2] in self.targets
        }


def _open_jev(name: str, base_id: str, pins: Pins) -> Family:
    return Family(
        name=name,
        base_id=base_id,
        method="independent_candidate_lora_nll_brier",
        rank=8,
        alpha=16,
        targets=("q_proj", "k_proj", "v_proj", "o_proj", "in_proj_qkv", "out_proj"),
        max_length=4096,
        pins=pins,
    )


_QWEN35_TARGETS = (
    *("q_proj", "k_proj", "v_proj", "o_proj"),
    *("gate_proj", "up_proj", "down_proj"),
    *("in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj"),
)


def _kev(size: str, base_id: str, pins: Pins) -> Family:
    return Family(
        name=f"kev-{size}",
        base_id=base_id,
        method="pointer_head",
        rank=16,
        alpha=32,
        targets=_QWEN35_TARGETS,
        max_length=73_728,  # tokens of a state with one branch
        pins=pins,
        layout="kev",
        merge="single-rounding",
        head_dim=256,
    )


FAMILIES = {
    family.name: family
    for family in (
        _open_jev(
            "open-jev-9b",
            "Qwen/Qwen3.5-9B",
            Pins(
                checkpoint_id="ZefanCai/Open-Jev-9B",
                checkpoint_revision="47e966881e489511c0c7f5633a9e1960a676a551",
                base_revision="c202236235762e1c871ad0ccb60c8ee5ba337b9a",
                temperature=1.8969118766347646,
                files={
                    "adapter/adapter_model.safetensors": (
                        "f85650a8fb97c6d0ac3e948cdca2f30a0ca6ace8b8a43aebca1c152fe38aeb75"
                    ),
                    "head.pt": "229fe9800384e824135e59d1af59bda7346da031aea61640be5f456b9be6ce70",
                    "temperature.json": (
                        "8cfe40a9f42cc2d0607a3381f2a4e0374cb3842506ac7263f7fff35facfca034"
                    ),
                },
            ),
        ),
        _open_jev(
            "open-jev-27b-v1.1",
            "Qwen/Qwen3.8-27B",
            Pins(
                checkpoint_id="ZefanCai/Open-Jev-27B-v1.1",
                checkpoint_revision="28cf73067d5b337860bbef3c85b8b82ba8730956",
                base_revision="1d4bf0f2ff6012fd82039f2fa52739d0dd7c60c0",
                temperature=2.5343690298472983,
            ),
        ),
        # No digests of whole files are published; a hub client's record of these revisions, or a
        # manifest of the operator's, proves them. The temperatures of 9B and 27B are rounded:
        # what is served is the one in `head.pt`.
        _kev(
            "0.8b",
            "Qwen/Qwen3.5-0.8B-Base",
            Pins(
                checkpoint_id="jaredpalmer/kev-0.8b",
                checkpoint_revision="9a45d25eb2ab761841196625383fa1dff0e56c1e",
                base_revision="dc7cdfe2ee4154fa7e30f5b51ca41bfa40174e68",
                temperature=2.3510958125672174,
            ),
        ),
        _kev(
            "4b",
            "Qwen/Qwen3.5-4B-Base",
            Pins(
                checkpoint_id="jaredpalmer/kev-4b",
                checkpoint_revision="139fdd94f1b6a6ad80cc15e08fcb99cac885a101",
                base_revision="1001bb4d826a52d1f399e183466143f4da7b741b",
                temperature=2.406050072164233,
            ),
        ),
        _kev(
            "9b",
            "Qwen/Qwen3.5-9B-Base",
            Pins(
                checkpoint_id="jaredpalmer/kev-9b",
                checkpoint_revision="2629c06a5aeb0feb3b9783bafed17ed8f39ecf5c",
                base_revision="68c46c4b3498877f3ef123c856ecfde50c39f404",
                temperature=2.30,
            ),
        ),
        _kev(
            "27b",
            "Qwen/Qwen3.8-27B",
            Pins(
                checkpoint_id="jaredpalmer/kev-27b",
                checkpoint_revision="01b81998019be550f0ae858727df49bac9511195",
                base_revision="1d4bf0f2ff6012fd82039f2fa52739d0dd7c60c0",
                temperature=1.38,
            ),
        ),
    )
}


def by_name(name: str) -> Family:
    """Raises ConfigError for a package this loader doesn't know."""
    if name not in FAMILIES:
        raise ConfigError(f"no package {name!r}; there are: {', '.join(FAMILIES)}")
    return FAMILIES[name]


def by_base(base_id: str, where: str, layout: Layout = "open-jev") -> Family:
    """The package of that layout on that base; `where` names the file that says so, for the
    error."""
    for family in FAMILIES.values():
        if family.base_id == base_id and family.layout == layout:
            return family
    raise ConfigError(f"{where}: model_id {base_id!r} is the base of no known package")
