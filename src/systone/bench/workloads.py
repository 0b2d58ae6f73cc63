"""The workloads by name. A new one is a function that returns a Workload and a line here."""

from __future__ import annotations

import re
from pathlib import Path

from systone.bench.datasets import canary, jevbench_240, json_lines
from systone.bench.items import Workload
from systone.bench.shape231 import shape_231
from systone.bench.sizes import Sizer
from systone.bench.synthetic import synthetic
from systone.bench.tokenizer import find_tokenizer
from systone.bench.words import word_pool
from systone.errors import ConfigError

__all__ = ["NAMES", "load_workload"]

NAMES = ("231-shape", "jevbench-240", "canary", "synthetic-N", "FILE.jsonl")

_SYNTHETIC = re.compile(r"synthetic-(\d{1,6})")


def load_workload(name: str, *, tokenizer: Path | None, target: str, seed: int) -> Workload:
    """Raises ConfigError for an unknown name, a missing package, file or tokenizer."""
    made = _SYNTHETIC.fullmatch(name)
    if name == "231-shape" or made:
        found = find_tokenizer(tokenizer, target, needed=True)
        assert found is not None
        words = word_pool(found)
        return synthetic(words, int(made[1]), seed) if made else shape_231(words, seed)
    if name not in ("jevbench-240", "canary") and not name.endswith(".jsonl"):
        raise ConfigError(f"--workload: {name!r} is none of {', '.join(NAMES)}")
    sizer = Sizer(find_tokenizer(tokenizer, target, needed=False))
    if name == "jevbench-240":
        return jevbench_240(sizer)
    if name == "canary":
        return canary(sizer)
    return json_lines(Path(name), sizer)
