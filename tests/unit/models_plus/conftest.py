"""Writes tiny GGUF files for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.models_plus.tiny_gguf import Tensors, metadata, pack_gguf, tiny_tensors


@pytest.fixture
def write_gguf(tmp_path: Path) -> Callable[..., Path]:
    """Writes a GGUF file and gives its path."""

    def write(values: Mapping[str, Any] | None = None, tensors: Tensors | None = None) -> Path:
        path = tmp_path / "tiny.gguf"
        values = metadata() if values is None else values
        path.write_bytes(pack_gguf(values, tiny_tensors() if tensors is None else tensors))
        return path

    return write
