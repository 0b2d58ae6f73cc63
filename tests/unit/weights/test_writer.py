from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from systone.weights.safetensors_file import SafetensorsFile
from systone.weights.writer import INDEX_NAME, Planned, write_sharded

PLANNED = [
    Planned("odd", "BF16", (3,)),
    Planned("wide", "F32", (5,)),
    Planned("big", "BF16", (40, 10)),
    Planned("last", "BF16", (2, 2)),
]


def value(name: str) -> torch.Tensor:
    planned = next(p for p in PLANNED if p.name == name)
    kind = torch.float32 if planned.dtype == "F32" else torch.bfloat16
    return torch.arange(planned.num_bytes // kind.itemsize).view(planned.shape).to(kind)


def test_the_safetensors_library_reads_the_shards(tmp_path: Path) -> None:
    write_sharded(tmp_path, PLANNED, value, max_shard_bytes=100)
    index = json.loads((tmp_path / INDEX_NAME).read_bytes())
    assert index["metadata"]["total_size"] == sum(p.num_bytes for p in PLANNED)
    assert set(index["weight_map"]) == {p.name for p in PLANNED}
    for name, file in index["weight_map"].items():
        with safe_open(tmp_path / file, "pt") as opened:
            assert torch.equal(opened.get_tensor(name), value(name))


def test_shards_stay_below_the_limit_unless_one_tensor_is_larger(tmp_path: Path) -> None:
    write_sharded(tmp_path, PLANNED, value, max_shard_bytes=100)
    held = [set(SafetensorsFile(p).entries) for p in sorted(tmp_path.glob("*.safetensors"))]
    assert held == [{"odd", "wide"}, {"big"}, {"last"}]


def test_tensors_start_at_multiples_of_their_element_size(tmp_path: Path) -> None:
    write_sharded(tmp_path, PLANNED, value)
    (path,) = tmp_path.glob("*.safetensors")
    length = int.from_bytes(path.read_bytes()[:8], "little")
    file = SafetensorsFile(path)
    assert (8 + length + file.entries["wide"].begin) % 4 == 0


def test_hashes_are_those_of_the_files(tmp_path: Path) -> None:
    hashes = write_sharded(tmp_path, PLANNED, value, max_shard_bytes=100)
    assert hashes.keys() == {p.name for p in tmp_path.iterdir()}
    for name, digest in hashes.items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest


def test_reports_every_byte(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    write_sharded(tmp_path, PLANNED, value, report=lambda *a: seen.append(a), step="writing")
    total = sum(p.num_bytes for p in PLANNED)
    assert seen[-1] == ("writing", total, total)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_a_tensor_that_is_not_as_planned_is_our_own_fault(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        write_sharded(tmp_path, PLANNED, lambda name: value(name).float())
