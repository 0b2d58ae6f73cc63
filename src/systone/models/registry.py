"""From a model source, as the operator names it, to the adapter and executor that serve it.

A source is a built-in name or a directory; the directory's files say which family it is. Families
are imported late: only the one asked for may bring torch along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from systone.errors import ConfigError
from systone.models.base import Loaded

if TYPE_CHECKING:
    from systone.config import ModelSettings

__all__ = ["BUILT_IN", "check", "load"]


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


def check(source: str) -> None:
    """What can be known of a source at once, before anything is loaded. Raises ConfigError."""
    if source in BUILT_IN or Path(source).is_dir():
        return
    names = ", ".join(BUILT_IN)
    raise ConfigError(f"model {source!r} is neither a built-in name ({names}) nor a directory")


def load(source: str, settings: ModelSettings) -> Loaded:
    """The adapter and executor of a source. Reads and verifies files; the executor's `start`
    places the model on its device. Raises ConfigError: one line naming what can't be served."""
    check(source)
    if source in BUILT_IN:
        return BUILT_IN[source](settings)
    from systone.models.open_jev.load import load_directory

    return load_directory(Path(source), settings)
