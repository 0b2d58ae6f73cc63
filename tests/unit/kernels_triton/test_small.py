"""Kernels under Triton's interpreter on small odd shapes: the checks of the GPU suite on a CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from systone.kernels.gemm import reference as gemm_reference
from systone.kernels.gemm import triton as gemm
from systone.kernels.gemm.tiles import GemmTile
from systone.kernels.head import reference as head_reference
from systone.kernels.head import triton as head
from systone.kernels.work import Scan
from tests.gpu import row_checks as check
from tests.gpu.cases import Inputs, leaves, relative, rows_of, work
from tests.gpu.trie_checks import AttentionCase, GdnCase, row_tokens

CPU = torch.device("cpu")
REQUESTS = [leaves(3, 1, [2, 17]), rows_of([[65, 1, 2]], seed=1)]
pytestmark = pytest.mark.usefixtures("small_tiles")


def test_gdn_equals_the_reference_and_reads_no_neighbour() -> None:
    tables, on_device = work(REQUESTS, CPU)
    case = GdnCase.of(tables, Inputs(), 1, 2, CPU)
    found = case.run(on_device)
    assert relative(found, case.reference(on_device)) < 4e-3
    mine = row_tokens(tables, 0)
    others = [t for t in range(tables.num_tokens) if t not in mine]
    for buffer in (case.qkv, case.b, case.a):
        buffer[others] = float("nan")
    assert torch.equal(case.run(on_device)[mine], found[mine])


def test_one_scan_over_a_pass_gives_the_bits_of_a_scan_per_depth() -> None:
    requests = [leaves(3, 1, [2, 17, 1]), rows_of([[65, 1, 2]], seed=1), rows_of([[66]], seed=2)]
    tables, on_device = work(requests, CPU)
    case = GdnCase.of(tables, Inputs(), 1, 2, CPU)
    whole = replace(on_device, scans=(Scan.of_all(tables.inner_ptr.shape[0] - 1),))
    assert len(on_device.scans) == 4
    assert torch.equal(case.run(whole), case.run(on_device))


@pytest.mark.filterwarnings("ignore:All-NaN slice")  # numpy, on rows of NaN neighbours
@pytest.mark.parametrize("heads", [4, 6])
def test_attention_equals_the_reference_and_reads_no_neighbour(heads: int) -> None:
    tables, on_device = work(REQUESTS, CPU, heads=heads, kv_heads=1)
    case = AttentionCase.of(tables, Inputs(), heads, 1, CPU, dim=64)
    found, last = case.run(on_device), case.run_readouts(on_device)
    assert relative(found, case.reference(on_device)) < 6e-3
    assert relative(last, case.reference_readouts(on_device)) < 6e-3
    mine = row_tokens(tables, 2)
    others = [t for t in range(tables.num_tokens) if t not in mine]
    for buffer in (case.q, case.k, case.v):
        buffer[others] = float("nan")
    assert torch.equal(case.run(on_device)[mine], found[mine])
    assert torch.equal(case.run_readouts(on_device)[2], last[2])


@pytest.mark.slow
def test_a_row_has_the_same_bits_alone_packed_and_shared() -> None:
    inputs = Inputs()
    made = {}
    for name, requests, shared in (
        ("packed", REQUESTS, True), ("apart", REQUESTS, False), ("alone", [[REQUESTS[0][1]]], True),
    ):  # fmt: skip
        tables, on_device = work(requests, CPU, heads=4, kv_heads=1, shared=shared)
        row = 0 if name == "alone" else 1
        tokens = row_tokens(tables, row)
        gdn = GdnCase.of(tables, inputs, 1, 2, CPU).run(on_device)[tokens]
        case = AttentionCase.of(tables, inputs, 4, 1, CPU, dim=64)
        made[name] = (gdn, case.run(on_device)[tokens], case.run_readouts(on_device)[row])
    for other in (made["packed"], made["apart"]):
        assert all(torch.equal(a, b) for a, b in zip(made["alone"], other, strict=True))


@pytest.mark.parametrize("rows", [1, 3, 17])
def test_row_operators(rows: int) -> None:
    pairs = [
        *check.norm_pairs(rows, 300, CPU), check.gated_pair(rows, 3, CPU),
        *check.rope_pairs(rows, 6, 1, CPU), check.swiglu_pair(rows, 1000, CPU),
    ]  # fmt: skip
    assert all(check.bits_apart(*pair) == 0.0 for pair in pairs)
    assert torch.equal(*check.gather_pair(rows, 40, CPU))


def test_conv_crosses_short_parents() -> None:
    _, tables = work([*REQUESTS, rows_of([[1, 1, 1, 2]], seed=2)], CPU)
    assert check.bits_apart(*check.conv_pair(tables, 264, CPU)) == 0.0


def test_heads_keep_the_bits_of_the_reference() -> None:
    x = check.draw(5, 1300, device=CPU)
    weight, bias = torch.randn(1, 1300), torch.randn(1)
    found = head.scalar_head(x, weight, bias)
    assert torch.equal(found, head_reference.scalar_head(x, weight, bias))
    args = (x[:2], x, torch.tensor([0, 1, 1, 0, 1], dtype=torch.int32))
    maps = (torch.randn(4, 1300), torch.randn(4), torch.randn(4, 1300), torch.randn(4))
    assert torch.equal(head.pointer_head(*args, *maps), head_reference.pointer_head(*args, *maps))


@pytest.mark.parametrize("descriptors", [False, True])
@pytest.mark.parametrize("shape", [(1, 72, 200), (33, 33, 64), (17, 40, 136)])
def test_canonical_product(shape: tuple[int, int, int], descriptors: bool) -> None:
    rows, outputs, width = shape
    x, weight = check.draw(rows, width, device=CPU), check.draw(outputs, width, device=CPU)
    tile = GemmTile(16, 32, 64, 4, 2, 1.0)
    found = gemm.linear_with(x, weight, None, tile, 3, descriptors=descriptors)
    assert relative(found, gemm_reference.linear(x, weight)) < 3e-3
