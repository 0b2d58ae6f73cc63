"""A JSON object from a file of the operator's; faults are one clear line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from systone.errors import ConfigError

__all__ = ["read_object"]


def read_object(path: Path) -> dict[str, Any]:
    """Raises ConfigError: can't be read, not JSON, not an object, or a key given twice."""
    try:
        value = json.loads(path.read_bytes(), object_pairs_hook=lambda pairs: _once(path, pairs))
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{path}: not JSON") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: not a JSON object")
    return value


def _once(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ConfigError(f"{path}: a key is given twice")
    return value
