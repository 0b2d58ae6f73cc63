from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from systone.errors import ConfigError
from systone.weights.safetensors_file import SafetensorsFile


def write(path: Path, header: object, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def entry(dtype: str = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_reads_what_the_safetensors_library_writes(tmp_path: Path) -> None:
    tensors = {
        "a": torch.randn(3, 5),
        "b": torch.randn(7).to(torch.bfloat16),
        "c": torch.arange(6).view(2, 3),
        "empty": torch.empty(0, 4),
    }
    save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "pt"})
    file = SafetensorsFile(tmp_path / "x.safetensors")
    assert set(file.entries) == set(tensors)
    for name, tensor in tensors.items():
        assert torch.equal(file.tensor(name), tensor)
        assert file.tensor(name).dtype == tensor.dtype


def test_writing_to_a_view_never_reaches_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"a": torch.zeros(4)}, path)
    before = path.read_bytes()
    SafetensorsFile(path).tensor("a").fill_(1.0)
    assert path.read_bytes() == before


def test_views_outlive_the_file_object(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"a": torch.arange(5.0)}, path)
    view = SafetensorsFile(path).tensor("a")
    assert view.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("header", "data", "complaint"),
    [
        (b"{", b"", "not JSON"),
        (b"\xff\xfe", b"", "not JSON"),
        (b"[" * 100_000, b"", "not JSON"),
        ([], b"", "not an object"),
        (b'{"a": 1, "a": 2}', b"", "twice"),
        ({"a": entry("F8")}, bytes(8), "dtype 'F8'"),
        ({"a": entry(["F32"])}, bytes(8), "dtype"),
        ({"a": entry(shape=[-2])}, bytes(8), "malformed"),
        ({"a": entry(shape=[2.0])}, bytes(8), "malformed"),
        ({"a": entry(offsets=[0])}, bytes(8), "malformed"),
        ({"a": [1, 2]}, bytes(8), "malformed"),
        ({"a": entry(offsets=[0, 12])}, bytes(12), "takes 12 bytes, its shape 8"),
        ({"a": entry(offsets=[4, 12])}, bytes(12), "starts at 4, not 0"),
        ({"a": entry(), "b": entry(offsets=[4, 12])}, bytes(12), "starts at 4, not 8"),
        ({"a": entry()}, bytes(7), "describes 8 bytes of data, found 7"),
        ({"a": entry()}, bytes(9), "describes 8 bytes of data, found 9"),
    ],
)
def test_refuses_a_malformed_header_in_one_line(
    tmp_path: Path, header: object, data: bytes, complaint: str
) -> None:
    path = write(tmp_path / "x.safetensors", header, data)
    with pytest.raises(ConfigError, match=complaint) as refused:
        SafetensorsFile(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"1234567", struct.pack("<Q", 1 << 40) + b"{}"])
def test_refuses_a_truncated_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=str(path)):
        SafetensorsFile(path)


def test_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"x\.safetensors: can't be read"):
        SafetensorsFile(tmp_path / "x.safetensors")
