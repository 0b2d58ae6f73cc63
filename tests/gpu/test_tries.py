"""GDN and attention kernels over tries: right against the reference, and the same bits for a row
alone, packed and shared, whatever lies beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from systone.kernels.work import Scan, WorkTables
from tests.gpu.cases import Inputs, odd_passes, relative, rows_of, work
from tests.gpu.trie_checks import AttentionCase, GdnCase, row_tokens

PASSES = odd_passes()
GDN_BOUND = 4e-3  # bf16 output rounding is 1.7e-3
ATTENTION_BOUND = 6e-3  # and bf16 softmax weights on top


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("heads", [32, 48])
def test_gdn_equals_the_reference(name: str, heads: int, device: torch.device) -> None:
    tables, on_device = work(PASSES[name], device)
    case = GdnCase.of(tables, Inputs(), 16, heads, device)
    assert relative(case.run(on_device), case.reference(on_device)) < GDN_BOUND


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("heads", [16, 24])
def test_attention_equals_the_reference(name: str, heads: int, device: torch.device) -> None:
    tables, on_device = work(PASSES[name], device, heads=heads)
    case = AttentionCase.of(tables, Inputs(), heads, 4, device)
    assert relative(case.run(on_device), case.reference(on_device)) < ATTENTION_BOUND
    found, wanted = case.run_readouts(on_device), case.reference_readouts(on_device)
    assert relative(found, wanted) < ATTENTION_BOUND


@pytest.mark.parametrize("name", ["depths", "leaves", "mixed"])
def test_a_row_has_the_same_bits_alone_packed_and_shared(name: str, device: torch.device) -> None:
    inputs, requests = Inputs(), PASSES[name]
    packed = _outputs(requests, inputs, device, shared=True)
    apart = _outputs(requests, inputs, device, shared=False)
    backwards = _outputs(requests[::-1], inputs, device, shared=True)
    for request, rows in enumerate(requests):
        for row in sorted({0, len(rows) // 2, len(rows) - 1}):
            alone = _outputs([[rows[row]]], inputs, device, shared=True)[0, 0]
            there = (
                packed[request, row],
                apart[request, row],
                backwards[len(requests) - 1 - request, row],
            )
            for other in there:
                assert all(torch.equal(a, b) for a, b in zip(alone, other, strict=True))


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("heads", [32, 48])
def test_one_scan_over_a_pass_gives_the_bits_of_a_scan_per_depth(
    name: str, heads: int, device: torch.device
) -> None:
    tables, on_device = work(PASSES[name], device)
    case = GdnCase.of(tables, Inputs(), 16, heads, device)
    whole = replace(on_device, scans=(Scan.of_all(tables.inner_ptr.shape[0] - 1),))
    assert torch.equal(case.run(whole), case.run(on_device))


def test_states_handed_over_inside_a_launch_are_always_there(device: torch.device) -> None:
    """On SM 9.0 programs wait for each other's states: a hundred runs, bits of the walked form."""
    requests = [rows_of([[37 + i, 5, 3 + j] for j in range(9)], seed=i) for i in range(40)]
    tables, on_device = work(requests, device)
    case = GdnCase.of(tables, Inputs(), 16, 32, device)
    walked = case.run(replace(on_device, scans=(Scan.of_all(tables.inner_ptr.shape[0] - 1),)))
    assert walked.isfinite().all()
    assert all(torch.equal(case.run(on_device), walked) for _ in range(100))


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("heads", [16, 24])
def test_short_attention_tiles_give_the_same_bits(
    name: str, heads: int, device: torch.device
) -> None:
    tables, on_device = work(PASSES[name], device, heads=heads)
    case = AttentionCase.of(tables, Inputs(), heads, 4, device)
    short = WorkTables.build(tables, 64 // (heads // 4), device)
    assert short.tile_seg.shape[0] > on_device.tile_seg.shape[0]
    assert torch.equal(case.run(short), case.run(on_device))


def test_nan_in_other_requests_changes_nothing(device: torch.device) -> None:
    tables, on_device = work(PASSES["mixed"], device)
    gdn = GdnCase.of(tables, Inputs(), 16, 32, device)
    attention = AttentionCase.of(tables, Inputs(), 16, 4, device)
    clean = gdn.run(on_device), attention.run(on_device)
    mine = torch.tensor(
        sorted(
            {
                t
                for r in range(tables.readout_seg.shape[0])
                if tables.readout_request[r] == 1
                for t in row_tokens(tables, r)
            }
        ),
        device=device,
    )
    others = torch.ones(tables.num_tokens, dtype=torch.bool, device=device)
    others[mine] = False
    for buffer in (gdn.qkv, gdn.b, gdn.a, attention.k, attention.v, attention.q):
        buffer[others] = float("nan")
    assert torch.equal(gdn.run(on_device)[mine], clean[0][mine])
    assert torch.equal(attention.run(on_device)[mine], clean[1][mine])


def test_equal_tokens_stay_finite_and_right(device: torch.device) -> None:
    tables, on_device = work([[[[7] * 4000]]], device)
    case = GdnCase.of(tables, Inputs(), 16, 32, device)
    case.qkv[:] = case.qkv[0].clone()
    case.b[:] = 4.0
    found, wanted = case.run(on_device), case.reference(on_device)
    assert torch.isfinite(found).all()
    assert relative(found, wanted) < 2 * GDN_BOUND


def _outputs(
    requests: list, inputs: Inputs, device: torch.device, *, shared: bool
) -> dict[tuple[int, int], tuple[torch.Tensor, ...]]:
    """(GDN, attention, read-out attention) of every row's path by (request, row)."""
    tables, on_device = work(requests, device, shared=shared)
    attention = AttentionCase.of(tables, inputs, 16, 4, device)
    gdn = GdnCase.of(tables, inputs, 16, 32, device).run(on_device)
    mixed, last = attention.run(on_device), attention.run_readouts(on_device)
    return {
        (int(tables.readout_request[r]), int(tables.readout_row[r])): (
            gdn[row_tokens(tables, r)], mixed[row_tokens(tables, r)], last[r])
        for r in range(tables.readout_seg.shape[0])
    }  # fmt: skip
