"""From a model source, as the operator names it, to the adapter and executor that serve it.

A source is a built-in name, a directory, whose files say which family it is, or the recipe of a
synthetic model. Families are imported late, and their `load` modules bring torch along only inside
their functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from systone.errors import ConfigError
from systone.models import synthetic
from systone.models.base import Loaded

if TYPE_CHECKING:
    from systone.config import ModelSettings

__all__ = ["BUILT_IN", "FAMILIES", "check", "load"]


def _mini(_: ModelSettings) -> Loaded:
    from systone.models import mini

    return mini.load()


def _mini_plus(_: ModelSettings) -> Loaded:
    from systone.models import mini_plus

    return mini_plus.load()


# The models that come with systone or its extras, in the order they are listed.
BUILT_IN: Mapping[str, Callable[[ModelSettings], Loaded]] = {
    "systone-mini": _mini,
    "systone-mini-plus": _mini_plus,
}

# Modules of families that are served from directories, asked in this order: each has
# `recognises(directory) -> bool`, a cheap look at file names, and `load_directory(directory,
# settings) -> Loaded`. The first match wins.
FAMILIES = (
    "systone.models.open_jev.load",
    "systone.models.kev.load",
    "systone.models.laya.load",
    "systone.models.label.load",
)


def check(source: str) -> None:
    """What can be known of a source at once, before anything is loaded. Raises ConfigError."""
    if synthetic.is_synthetic(source):
        synthetic.check(source)
    elif source not in BUILT_IN and not Path(source).is_dir():
        names = ", ".join(BUILT_IN)
        raise ConfigError(f"model {source!r} is neither a built-in name ({names}) nor a directory")


def load(source: str, settings: ModelSettings) -> Loaded:
    """The adapter and executor of a source. Reads and verifies files; the executor's `start`
    places the model on its device. Raises ConfigError: one line naming what can't be served."""
    check(source)
    if source in BUILT_IN:
        return BUILT_IN[source](settings)
    if synthetic.is_synthetic(source):
        return synthetic.load(source, settings)
    directory = Path(source)
    for family in map(import_module, FAMILIES):
        if family.recognises(directory):
            loaded: Loaded = family.load_directory(directory, settings)
            return loaded
    names = ", ".join(name.split(".")[2] for name in FAMILIES)
    raise ConfigError(f"{source}: no family recognises these files (asked: {names})")
