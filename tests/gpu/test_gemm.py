"""The canonical matrix product: right, and the same bits for every tile, every M and cuBLASLt."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch

from systone.kernels.config import table_of
from systone.kernels.gemm import cublaslt, gated
from systone.kernels.gemm import triton as canonical
from systone.kernels.swiglu.triton import swiglu
from tests.gpu.cases import ODD, beyond, relative

SHAPES = [
    (12352, 4096), (10240, 4096), (4096, 4096), (24576, 4096), (4096, 12288),
    (16480, 5120), (14336, 5120), (5120, 6144), (34816, 5120), (5120, 17408),
]  # fmt: skip
GATED = [(24576, 4096), (34816, 5120), (2 * 1000, 512)]


def inputs(rows: int, outputs: int, width: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator(device).manual_seed(rows + outputs)
    x = torch.randn(rows, width, generator=generator, device=device).bfloat16()
    weight = torch.randn(outputs, width, generator=generator, device=device).bfloat16()
    return beyond(x), weight * 0.02


@pytest.mark.parametrize("shape", SHAPES)
def test_tiles_and_rows_and_cublaslt_agree_to_the_bit(
    shape: tuple[int, int], device: torch.device
) -> None:
    config, processors = table_of(device)
    x, weight = inputs(1100, *shape, device)
    whole = canonical.linear(x, weight)
    assert relative(whole, x.float() @ weight.float().t()) < 3e-3
    for rows in ODD:
        assert torch.equal(canonical.linear(x[:rows], weight), whole[:rows])
        with cublaslt.exact_blas():
            assert torch.equal(cublaslt.linear(x[:rows], weight), whole[:rows])
    for tile, group in product(config.gemm, (8, 16)):
        for descriptors in {False, config.descriptors}:
            form = replace(tile, group=group)
            made = canonical.linear_with(x, weight, None, form, processors, descriptors=descriptors)
            assert torch.equal(made, whole)


@pytest.mark.parametrize("shape", GATED)
def test_gated_product_has_the_bits_of_its_parts(
    shape: tuple[int, int], device: torch.device
) -> None:
    config, processors = table_of(device)
    if not config.gated:
        pytest.skip("two launches on this device")
    x, weight = inputs(1100, *shape, device)
    whole = swiglu(canonical.linear(x, weight))
    for rows in ODD:
        made = gated.gated(x[:rows], weight)
        assert made is None or torch.equal(made, whole[:rows])
    for tile, group in product(config.gated, (8, 16)):
        form = replace(tile, group=group)
        assert torch.equal(gated.gated_with(x, weight, None, form, processors), whole)
        beyond_edge = gated.gated_with(x[:77], weight, None, form, processors)
        assert torch.equal(beyond_edge, whole[:77])


def test_odd_inner_sizes(device: torch.device) -> None:
    for rows, outputs, width in ((1, 72, 200), (3, 33, 64), (65, 1000, 1032)):
        x, weight = inputs(rows, outputs, width, device)
        assert relative(canonical.linear(x, weight), x.float() @ weight.float().t()) < 3e-3


def test_blas_switches_are_put_back(device: torch.device) -> None:
    flags = torch.backends.cuda.matmul
    before = torch.backends.cuda.preferred_blas_library()
    reduction = flags.allow_bf16_reduced_precision_reduction
    with cublaslt.exact_blas():
        assert flags.allow_bf16_reduced_precision_reduction in (False, (False, False))
    assert torch.backends.cuda.preferred_blas_library() == before
    assert flags.allow_bf16_reduced_precision_reduction == reduction
