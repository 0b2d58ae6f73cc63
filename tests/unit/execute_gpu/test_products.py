"""Which backend a product goes to, by what was proven and its shape, and what is loaded first."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from systone.execute import gpu_gemm
from systone.execute.buckets import readout_buckets, token_buckets
from systone.execute.gpu_gemm import Products
from systone.kernels.config import pretend


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


LAYOUTS = {  # gate|up first
    "9b": ((24576, 4096), (12352, 4096), (10240, 4096), (4096, 4096), (4096, 12288)),
    "27b": ((34816, 5120), (16480, 5120), (14336, 5120), (5120, 6144), (5120, 17408)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
@pytest.mark.parametrize("proven", [True, False])
def test_every_variant_a_product_may_take_is_launched_before_serving(
    monkeypatch: pytest.MonkeyPatch, layout: str, capability: tuple[int, int], proven: bool
) -> None:
    launched: set[Any] = set()

    def launch(x: Tensor, weight: Tensor, out: Any, tile: Any, *_: Any, **__: Any) -> Any:
        launched.add((tuple(weight.shape), tile))
        return out

    monkeypatch.setattr(gpu_gemm.canonical, "linear_with", launch)
    monkeypatch.setattr(gpu_gemm.gated, "gated_with", launch)
    monkeypatch.setattr(gpu_gemm.cublaslt, "linear", lambda x, weight, *, out: out)
    monkeypatch.setattr(gpu_gemm, "swiglu", lambda wide, out=None: launched.add("swiglu"))
    made = [_unwritten(*shape) for shape in LAYOUTS[layout]]
    fast = set(LAYOUTS[layout]) if proven else set()
    products = Products(fast, gated={LAYOUTS[layout][0]})
    counts = {*token_buckets(8192), *readout_buckets(1024)}
    with pretend(capability):
        for weight in made:
            for rows in counts:
                x, out = _unwritten(rows, weight.shape[1]), _unwritten(rows, weight.shape[0])
                if weight is made[0]:
                    products.activated(x, weight, out, out)
                else:
                    products.linear(x, weight, out)
        wanted = set(launched)
        launched.clear()
        products.warm(made, counts)
    assert wanted - launched == set()
    assert launched - wanted <= {"swiglu"}, "a start takes longer for nothing"
    assert wanted or proven, "nothing to compare"


def _unwritten(*shape: int) -> Tensor:
    return torch.empty(*shape, dtype=torch.bfloat16, device="meta")
