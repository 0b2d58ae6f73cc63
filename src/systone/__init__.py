"""systone: typed decisions with probabilities from System One decision models.

    >>> import systone
    >>> systone.ask("The parcel came crushed.", {"damaged": systone.Noul("Is it damaged?")})

Importing the package is cheap: its parts are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from systone.config import EngineConfig, ModelSettings
    from systone.engine import Engine
    from systone.oneshot import ask
    from systone.protocol.types import Choice, Decision, Noul, Score

__version__ = "0.1.0"

__all__ = [
    "Choice",
    "Decision",
    "Engine",
    "EngineConfig",
    "ModelSettings",
    "Noul",
    "Score",
    "__version__",
    "ask",
]

_HOMES = {
    "Choice": "systone.protocol.types",
    "Decision": "systone.protocol.types",
    "Engine": "systone.engine",
    "EngineConfig": "systone.config",
    "ModelSettings": "systone.config",
    "Noul": "systone.protocol.types",
    "Score": "systone.protocol.types",
    "ask": "systone.oneshot",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'systone' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
