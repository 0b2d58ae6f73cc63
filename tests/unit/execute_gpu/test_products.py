"""Which backend a product goes to, by what was proven and by its shape."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from systone.execute import gpu_gemm
from systone.execute.gpu_gemm import Products


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The backends in the order they were asked."""
    names: list[str] = []
    for name in ("cublaslt", "canonical"):

        def product(x: Tensor, weight: Tensor, *, out: Tensor, name: str = name) -> Any:
            names.append(name)
            return out

        monkeypatch.setattr(getattr(gpu_gemm, name), "linear", product)
    return names


@pytest.mark.parametrize(
    ("shape", "rows", "proven", "backend"),
    [
        ((40, 96), 64, True, "cublaslt"),
        ((40, 96), 8, True, "canonical"),  # a long sum into few outputs
        ((96, 96), 8, True, "cublaslt"),
        ((96, 96), 64, False, "canonical"),
    ],
)
def test_a_product_goes_where_it_is_proven_and_quick(
    asked: list[str], shape: tuple[int, int], rows: int, proven: bool, backend: str
) -> None:
    products = Products(fast={shape} if proven else set())
    products.linear(torch.empty(rows, shape[1]), torch.empty(shape), torch.empty(rows, shape[0]))
    assert asked == [backend]


def test_the_modes_say_so() -> None:
    said = Products(fast={(40, 96), (96, 96)}).describe()
    assert said == {"40x96": "cublaslt, canonical below 64 rows", "96x96": "cublaslt"}
