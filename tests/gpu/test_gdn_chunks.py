"""The chunk work of the gated delta rule: the kernel of SM 9.0 against the portable one."""

from __future__ import annotations

import pytest
import torch

from systone.kernels.config import table_of
from systone.kernels.gdn import hopper
from systone.kernels.gdn import triton as gdn
from systone.plan.tables import PassTables
from tests.gpu.cases import Inputs, nan, odd_passes, relative, work
from tests.gpu.trie_checks import GdnCase

KEY_HEADS = 16


@pytest.mark.parametrize("heads", [32, 48])
@pytest.mark.parametrize("name", ["lengths", "depths", "mixed"])
def test_both_kernels_leave_the_same_matrices(name: str, heads: int, device: torch.device) -> None:
    if not table_of(device)[0].hopper_gdn:
        pytest.skip("needs SM 9.0")
    tables, on_device = work(odd_passes()[name], device)
    case = GdnCase.of(tables, Inputs(), KEY_HEADS, heads, device)
    units = torch.randn(tables.num_tokens, 2, KEY_HEADS, 128, device=device)
    units = (units / units.norm(dim=-1, keepdim=True)).half()
    made = []
    for chunks in (gdn._chunks, hopper.chunks):
        scratch = gdn.GdnScratch.empty(tables.num_tokens, 1, KEY_HEADS, heads, device)
        for tensor in (scratch.matrices, scratch.growth, scratch.blocks):
            tensor.fill_(float("nan"))
        scratch.units.copy_(units)
        out = nan(tables.num_tokens, heads, 128, dtype=torch.bfloat16, device=device)
        chunks(case.b, case.a, case.log, case.bias, scratch, out, on_device, KEY_HEADS, 128**-0.5)
        made.append((scratch.matrices, scratch.growth[:, : tables.num_tokens]))
    (portable, growth), (found, found_growth) = made
    assert relative(found_growth, growth) < 1e-6
    for matrix in (0, 1):
        assert relative(found[:, :, matrix], portable[:, :, matrix]) < 1e-3
    assert (found[_beyond(tables, device)] == 0).all()


def _beyond(tables: PassTables, device: torch.device) -> tuple[torch.Tensor, ...]:
    """Indices (token, every head, both matrices, column) of columns at and beyond a chunk's end."""
    length = torch.zeros(tables.num_tokens, dtype=torch.long)
    for start, count in zip(tables.chunk_start, tables.chunk_len, strict=True):
        length[start : start + count] = int(count)
    token, column = (torch.arange(64) >= length[:, None]).nonzero(as_tuple=True)
    return token.to(device), slice(None), slice(None), column.to(device)
