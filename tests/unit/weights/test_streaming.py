"""Loading holds one copy of the model; writing holds about one tensor. Measured in a process of
its own, by its private memory (pages of mapped files are the system's to drop)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

CODE = """
import json, sys
from dataclasses import replace
from pathlib import Path

import torch

from systone.weights.export import export
from systone.weights.served import load_served
from systone.weights.synth.specs import find
from systone.weights.synth.write import write_recipe

torch.set_num_threads(1)
peak = 0

def private():
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) * 1024

def report(step, done, total):
    global peak
    peak = max(peak, private())

def growth(work):
    global peak
    peak = before = private()
    kept = work()
    return peak - before, kept

recipe = find("open-jev-9b", "tiny")
sizes = dict(hidden=768, intermediate=2304, vocab=16384, heads=16, kv_heads=4)
recipe = replace(recipe, size="full", backbone=replace(recipe.backbone, **sizes))
out = Path(sys.argv[1])
synth, _ = growth(lambda: write_recipe(recipe, 1, out / "d", report))
load, served = growth(lambda: load_served(out / "d", progress=report))
size, largest = served.num_bytes, max(t.nbytes for t in served.tensors.values())
del served
merge, _ = growth(lambda: export(out / "d", out / "e", progress=report))
print(json.dumps(dict(synth=synth, load=load, merge=merge, size=size, largest=largest)))
"""


def test_memory_is_one_copy_at_most(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["size"] > 100 << 20
    assert found["load"] < 1.25 * found["size"]
    assert found["synth"] < 6 * found["largest"] < found["size"]
    # The comparison with PEFT holds one float32 product, so a few times a tensor here.
    assert found["merge"] < 5 * found["largest"]
