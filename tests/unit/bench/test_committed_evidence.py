"""The evidence that is committed: green as it is, red with one byte changed anywhere."""

import random
import shutil
from pathlib import Path

import pytest

from systone.bench.audit import audit
from systone.bench.evidence import summary_path

HELD = Path(__file__).parents[3] / "docs" / "evidence" / "gpu_workload"
pytestmark = pytest.mark.skipif(not HELD.is_dir(), reason="no workload has been measured yet")


def test_it_is_green_and_small() -> None:
    found = audit(HELD)
    assert found.differences == ()
    assert found.requests > 40_000
    files = [*HELD.rglob("*"), summary_path(HELD)]
    assert sum(file.stat().st_size for file in files if file.is_file()) <= 5 * 10**6


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_one_changed_byte_is_red(seed: int, tmp_path: Path) -> None:
    copy = tmp_path / HELD.name
    shutil.copytree(HELD, copy)
    shutil.copy(summary_path(HELD), summary_path(copy))
    draw = random.Random(seed)
    files = sorted(file for file in tmp_path.rglob("*") if file.is_file())
    file = draw.choice(files)
    data = bytearray(file.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(data)
    assert audit(copy).differences, file
