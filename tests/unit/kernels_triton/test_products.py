"""Every form of the canonical product, and the one with the gated activation in it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from systone.kernels.gemm import gated
from systone.kernels.gemm import reference as gemm_reference
from systone.kernels.gemm import triton as gemm
from systone.kernels.gemm.tiles import GemmTile
from systone.kernels.swiglu import triton as swiglu
from tests.gpu import row_checks as check
from tests.gpu.cases import relative

CPU = torch.device("cpu")
TILE = GemmTile(16, 32, 64, 4, 2, 1.0)
FORMS = {
    "persistent": TILE,
    "a program a tile": replace(TILE, persistent=False),
    "wider": replace(TILE, persistent=False, rest=16),
    "in halves": replace(TILE, halves=True),
    "grouped": replace(TILE, group=2),
}


@pytest.mark.parametrize("shape", [(1, 72, 200), (33, 33, 64), (17, 104, 136)])
def test_every_form_has_the_same_bits(shape: tuple[int, int, int]) -> None:
    rows, outputs, width = shape
    x, weight = check.draw(rows, width, device=CPU), check.draw(outputs, width, device=CPU)
    plain = gemm.linear_with(x, weight, None, TILE, 3, descriptors=False)
    assert relative(plain, gemm_reference.linear(x, weight)) < 3e-3
    made = {n: gemm.linear_with(x, weight, None, t, 3, descriptors=True) for n, t in FORMS.items()}
    assert [n for n, out in made.items() if not torch.equal(out, plain)] == []


@pytest.mark.parametrize("form", ["persistent", "a program a tile", "grouped"])
@pytest.mark.parametrize("shape", [(1, 72, 200), (33, 40, 64)])
def test_gated_product_has_the_bits_of_its_parts(shape: tuple[int, int, int], form: str) -> None:
    rows, outputs, width = shape
    x, weight = check.draw(rows, width, device=CPU), check.draw(2 * outputs, width, device=CPU)
    parts = swiglu.swiglu(gemm.linear_with(x, weight, None, TILE, 3, descriptors=True))
    assert torch.equal(gated.gated_with(x, weight, None, FORMS[form], 3), parts)
