from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from systone.errors import ConfigError
from systone.weights.head_file import read_scalar_head


class Bomb:
    """Unpickling it would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def good() -> dict[str, Any]:
    return {"weight": torch.linspace(-1, 1, 16).view(1, 16), "bias": torch.tensor([0.25])}


def test_reads_weight_and_bias(tmp_path: Path) -> None:
    torch.save(good(), tmp_path / "head.pt")
    head = read_scalar_head(tmp_path / "head.pt", 16)
    assert torch.equal(head.weight, good()["weight"])
    assert torch.equal(head.bias, good()["bias"])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda s: s.pop("bias"), "exactly 'weight' and 'bias'"),
        (lambda s: s.update(extra=torch.zeros(1)), "exactly 'weight' and 'bias'"),
        (lambda s: s.update(weight=s["weight"].half()), "dtype torch.float16"),
        (lambda s: s.update(weight=s["weight"].view(16)), r"shape \[16\], not \[1, 16\]"),
        (lambda s: s.update(bias=torch.zeros(2)), r"shape \[2\], not \[1\]"),
        (lambda s: s.update(bias=0.25), "not a tensor"),
        (lambda s: s.update(bias=torch.tensor([float("inf")])), "not finite"),
        (lambda s: s.update(weight=s["weight"].to_sparse()), "not a tensor"),
    ],
)
def test_a_bent_head_is_refused(tmp_path: Path, change: Any, complaint: str) -> None:
    state = good()
    change(state)
    torch.save(state, tmp_path / "head.pt")
    with pytest.raises(ConfigError, match=complaint) as refused:
        read_scalar_head(tmp_path / "head.pt", 16)
    assert str(refused.value).startswith(str(tmp_path / "head.pt"))


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pickle_with_code_is_refused_and_not_run(tmp_path: Path, legacy: bool) -> None:
    path, trace = tmp_path / "head.pt", tmp_path / "ran"
    state = {**good(), "bomb": Bomb(trace)}
    torch.save(state, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(ConfigError, match="more than tensors and plain data") as refused:
        read_scalar_head(path, 16)
    assert "\n" not in str(refused.value)
    assert not trace.exists()
    torch.load(path, weights_only=False)
    assert trace.exists()  # the pickle was a real one


def test_a_bare_pickle_with_code_is_refused(tmp_path: Path) -> None:
    path, trace = tmp_path / "head.pt", tmp_path / "ran"
    path.write_bytes(pickle.dumps(Bomb(trace)))
    with pytest.raises(ConfigError, match=r"head\.pt"):
        read_scalar_head(path, 16)
    assert not trace.exists()


@pytest.mark.parametrize("cut", [0, 1, 10, 400])
def test_a_truncated_head_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "head.pt"
    torch.save(good(), path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ConfigError, match=r"head\.pt") as refused:
        read_scalar_head(path, 16)
    assert "\n" not in str(refused.value)


def test_a_missing_head_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"head\.pt: can't be read"):
        read_scalar_head(tmp_path / "head.pt", 16)
