"""The models `systone pull` knows: repositories, pinned revisions, published SHA-256.

A model is a row; knows no network. Sources: the models' own cards and the revisions their users
pin. A digest given in part (a card may print its first digits only) is compared in part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from systone.errors import ConfigError
from systone.weights.families import FAMILIES, Family

__all__ = ["ALL_FILES", "MODELS", "Model", "Part", "find"]

# What a loader may read of a repository, wherever nothing narrower is known.
ALL_FILES = ("*.json", "*.safetensors", "*.pt", "*.txt", "*.jinja", "*.model")


@dataclass(frozen=True, slots=True)
class Part:
    """One repository of a model. `folder`: where it goes below the model's directory; `patterns`:
    which of its files (shell patterns over whole paths); `pins`: end of a path -> SHA-256, whole
    or its first digits."""

    repo: str
    revision: str
    folder: str = ""
    patterns: tuple[str, ...] = ALL_FILES
    pins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Model:
    """`parts`: the first one is the model itself, whose revision `NAME@rev` replaces."""

    name: str
    licence: str
    parts: tuple[Part, ...]


def _open_jev(family: Family) -> Model:
    pins = family.pins
    return Model(
        family.name,
        "Apache-2.0",
        (
            Part(
                pins.checkpoint_id,
                pins.checkpoint_revision,
                "package",
                pins={f"checkpoint/{name}": digest for name, digest in pins.files.items()},
            ),
            Part(family.base_id, pins.base_revision, "base"),
        ),
    )


def _kev(
    size: str, revision: str, base: str, base_revision: str, pins: Mapping[str, str] | None = None
) -> Model:
    return Model(
        f"kev-{size}",
        "Apache-2.0",
        (
            Part(f"jaredpalmer/kev-{size}", revision, "package", pins=pins or {}),
            Part(base, base_revision, "base"),
        ),
    )


def _laya(name: str, revision: str) -> Model:
    # The main repository holds its siblings in folders of their own; they aren't wanted here.
    files = ("rl_agent_config.json", "model.safetensors", "tokenizer/*", "encoder/*.json")
    return Model(name, "Apache-2.0", (Part(f"convaiinnovations/{name}", revision, "", files),))


_ROWS = (
    _laya("laya", "55cf4c4ebb4ebe31b2550e8bdf3bd21b99753851"),
    _laya("laya-multilingual", "e4e9ddf21a7b1903b7acffd8814ad4307bf63a67"),
    _laya("laya-typed-decisions", "1a793eb568e6718f15941d08f85432581df534e3"),
    *(_open_jev(family) for family in FAMILIES.values()),
    _kev(
        "0.8b",
        "9a45d25eb2ab761841196625383fa1dff0e56c1e",
        "Qwen/Qwen3.5-0.8B-Base",
        "dc7cdfe2ee4154fa7e30f5b51ca41bfa40174e68",
    ),
    _kev(
        "4b",
        "139fdd94f1b6a6ad80cc15e08fcb99cac885a101",
        "Qwen/Qwen3.5-4B-Base",
        "1001bb4d826a52d1f399e183466143f4da7b741b",
        {"adapter_model.safetensors": "90e81735", "head.pt": "dd633435"},
    ),
    _kev(
        "9b",
        "2629c06a5aeb0feb3b9783bafed17ed8f39ecf5c",
        "Qwen/Qwen3.5-9B-Base",
        "68c46c4b3498877f3ef123c856ecfde50c39f404",
    ),
    _kev(
        "27b",
        "01b81998019be550f0ae858727df49bac9511195",
        "Qwen/Qwen3.8-27B",
        "1d4bf0f2ff6012fd82039f2fa52739d0dd7c60c0",
    ),
)
MODELS: Mapping[str, Model] = {model.name: model for model in _ROWS}


def find(spec: str) -> Model:
    """`NAME[@rev]`: a row, with the model's own revision replaced when one is given (published
    digests then no longer apply); or `OWNER/REPO@rev`, any repository. Raises ConfigError."""
    name, at, revision = spec.partition("@")
    if at and not revision:
        raise ConfigError(f"{spec!r}: no revision after the @")
    if name in MODELS:
        model = MODELS[name]
        main = model.parts[0]
        if not at or revision == main.revision:
            return model
        return replace(model, parts=(replace(main, revision=revision, pins={}), *model.parts[1:]))
    owner, slash, repo = name.partition("/")
    if not (owner and slash and repo) or "/" in repo:
        known = ", ".join(MODELS)
        raise ConfigError(f"no model {name!r}; there are: {known}; or name a repository OWNER/REPO")
    if not at:
        raise ConfigError(f"{name}: say which revision (OWNER/REPO@revision); nothing here pins it")
    return Model(repo, "see the repository", (Part(name, revision),))
