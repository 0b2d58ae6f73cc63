"""Verdicts of earlier starts, one small file for every device, driver, library and set of shapes.

A file that can't be read or doesn't hold what is asked counts as none; one that can't be written
is said once. Never holds anything about the weights' values.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["VerdictCache", "default_directory"]

log = logging.getLogger(__name__)

_FORMAT = 1


def default_directory() -> Path:
    return Path.home() / ".cache" / "systone" / "selfcheck"


class VerdictCache:
    """`identity`: everything a verdict depends on, as JSON. `directory` None: nothing is kept."""

    def __init__(self, identity: Mapping[str, Any], directory: Path | None) -> None:
        self._identity = json.dumps({"format": _FORMAT, **identity}, sort_keys=True)
        name = hashlib.sha256(self._identity.encode()).hexdigest()[:32]
        self._path = directory / f"{name}.json" if directory else None

    def read(self) -> Mapping[str, Any] | None:
        if self._path is None:
            return None
        try:
            held = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return None
        if not isinstance(held, dict) or held.get("identity") != self._identity:
            return None
        verdicts = held.get("verdicts")
        return verdicts if isinstance(verdicts, dict) else None

    def write(self, verdicts: Mapping[str, Any]) -> None:
        if self._path is None:
            return
        text = json.dumps({"identity": self._identity, "verdicts": verdicts})
        part = self._path.with_suffix(f".{os.getpid()}.part")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(text)
            part.replace(self._path)
        except OSError as error:
            log.warning("the self-check's verdicts can't be kept: %s", error)
