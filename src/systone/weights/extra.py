"""The check that the optional torch stack is installed, for code that is imported without it."""

from __future__ import annotations

from importlib.util import find_spec

from systone.errors import ConfigError

__all__ = ["require_torch"]


def require_torch(purpose: str) -> None:
    """Raises ConfigError, saying what to install, when torch isn't."""
    if find_spec("torch") is None:
        raise ConfigError(f"{purpose} needs torch: pip install systone[torch]")
