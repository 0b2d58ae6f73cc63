"""Golden files by name, and the tiny synthetic checkpoints they were made from."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from systone.weights.merged import ServedWeights
from systone.weights.synth import synthesize_served, tokenizer_file

HERE = Path(__file__).parent
REQUESTS = sorted(path.stem for path in (HERE / "requests").glob("*.json"))


@cache
def _golden(*parts: str) -> dict[str, Any]:
    return json.loads((HERE / f"{'.'.join(parts)}.json").read_bytes())


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def golden():
    """`golden(package, mode, request)`, or `golden(package, "merge")`."""
    return _golden


@pytest.fixture(scope="module", params=["open-jev-9b", "open-jev-27b-v1.1"])
def package(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=REQUESTS)
def request_name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def tokenizer_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tokenizer")
    config = tokenizer_file.tokenizer_config("Qwen2Tokenizer")
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    (directory / "tokenizer.json").write_bytes(tokenizer_file.tokenizer_json())
    return directory


@pytest.fixture(scope="module")
def served(package: str, golden, tokenizer_directory: Path) -> ServedWeights:
    seed = golden(package, "fp32", REQUESTS[0])["header"]["seed"]
    return synthesize_served(package, "tiny", seed, tokenizer=tokenizer_directory)
