"""The gate: faults planted in products, in passes and in graphs are found and said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from systone.execute.base import Proofs
from systone.execute.selfcheck import PassVerdict, Report, check_graphs, check_passes
from systone.execute.selfcheck_alone import alone
from systone.execute.selfcheck_cache import VerdictCache
from systone.execute.selfcheck_products import (
    Verdict,
    check_heads,
    check_products,
    one_of_each_shape,
)
from systone.execute.selfcheck_rows import check_rows, pass_of
from systone.plan import PassTables

COUNTS = (8, 16, 64, 128)


def steady(x: Tensor, weight: Tensor) -> Tensor:
    """One order of addition, whatever the number of rows."""
    total = torch.zeros(x.shape[0], weight.shape[0])
    for k in range(x.shape[1]):
        total += x[:, k : k + 1].float() * weight[:, k].float()
    return total.bfloat16()


def split_k(x: Tensor, weight: Tensor) -> Tensor:
    """Few rows: two partial sums rounded to bf16 before they are added."""
    if x.shape[0] > 16:
        return steady(x, weight)
    half = x.shape[1] // 2
    return steady(x[:, :half], weight[:, :half]) + steady(x[:, half:], weight[:, half:])


@pytest.fixture
def weights() -> dict[tuple[int, int], Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = [(24, 32), (16, 48), (24, 32)]
    return one_of_each_shape([torch.randn(*s, generator=generator).bfloat16() for s in shapes])


def test_products_with_one_order_pass(weights) -> None:
    found = check_products(weights, COUNTS, {}, fast=steady, exact=steady)
    assert found == {(24, 32): Verdict(None, None), (16, 48): Verdict(None, None)}
    assert all(verdict.mode == "cublaslt" for verdict in found.values())


def test_split_k_at_few_rows_is_found(weights) -> None:
    found = check_products(weights, COUNTS, {}, fast=split_k, exact=steady)
    assert {verdict.cublaslt for verdict in found.values()} == {8}
    assert found[24, 32].mode == "canonical, cublaslt differs at M=8"
    assert not found[24, 32].fast


def test_a_canonical_product_that_varies_is_found(weights) -> None:
    found = check_products(weights, COUNTS, {}, fast=steady, exact=split_k)
    assert {verdict.canonical for verdict in found.values()} == {8}
    assert not Report(found, PassVerdict(True, True), None, {}, False).proofs.m_invariant


def test_rows_of_a_real_pass_are_tried_too(weights) -> None:
    def wrong_on_sevens(x: Tensor, weight: Tensor) -> Tensor:
        return steady(x, weight) + (x[0, 0] == 7).bfloat16()

    plain = check_products(weights, COUNTS, {}, fast=wrong_on_sevens, exact=steady)
    assert plain[24, 32].fast
    warm = {(24, 32): torch.full((3, 32), 7.0).bfloat16()}
    found = check_products(weights, COUNTS, warm, fast=wrong_on_sevens, exact=steady)
    assert (found[24, 32].cublaslt, found[16, 48].cublaslt) == (8, None)


def test_a_gated_product_that_differs_is_found_and_not_used(weights) -> None:
    def activation(wide: Tensor) -> Tensor:
        return torch.relu(wide)

    def fused(x: Tensor, weight: Tensor) -> Tensor | None:
        made = activation(steady(x, weight))
        return None if x.shape[0] == 8 else made + (x.shape[0] == 64)

    def check(**settings) -> dict:
        made = {"fast": steady, "exact": steady, "activation": activation, **settings}
        return check_products(weights, COUNTS, {}, activated={(24, 32)}, **made)

    found = check(fused=fused)
    assert {shape: verdict.gated for shape, verdict in found.items()} == {
        (24, 32): 64,
        (16, 48): None,
    }
    assert found[24, 32].fast
    assert check(fused=lambda x, w: activation(steady(x, w)))[24, 32].gated is None
    assert check(fused=lambda x, w: None)[24, 32].gated is None


def test_a_head_is_checked_with_its_own_kernel() -> None:
    head = one_of_each_shape([torch.randn(3, 1300, generator=torch.Generator().manual_seed(2))])
    warm = {(3, 1300): torch.ones(2, 1300).bfloat16()}
    assert check_heads(head, (2, 5), warm) == {(3, 1300): Verdict(None, None, wanted=False)}


def test_a_head_that_varies_with_the_row_count_is_found_and_said() -> None:
    def varies(x: Tensor, weight: Tensor) -> Tensor:
        return x.float() @ weight.t() + (x.shape[0] > 4) * 1e-3

    found = check_heads({(1, 8): torch.ones(1, 8)}, (2, 4, 8), {}, product=varies)
    assert found[1, 8].canonical == 2
    report = Report({}, PassVerdict(False, False), None, {}, False, heads=found)
    assert report.describe()["heads"] == {"1x8": "canonical, varies at M=2"}
    assert report.refused == 3


def own_rows(tables: PassTables) -> np.ndarray:
    """Bits of a read-out that are a function of its own path."""
    made = []
    for single in alone(tables):
        ids = single.token_ids.astype(np.int64)
        sums = (ids * (np.arange(ids.size) + 1)).cumsum()
        made.append(sums[single.readout_token])
    return np.concatenate(made)[:, None]


def test_rows_that_depend_on_themselves_only_pass() -> None:
    assert check_passes(own_rows, 500) == PassVerdict(packing=True, sharing=True)


def test_a_row_that_feels_its_neighbours_is_found() -> None:
    def packed(tables: PassTables) -> np.ndarray:
        return own_rows(tables) + (tables.num_tokens > 1500)

    verdict = check_passes(packed, 500)
    assert not verdict.packing
    report = Report({}, verdict, None, {}, False)
    assert report.proofs == Proofs(m_invariant=False, sharing=False)
    assert report.describe()["packing"].startswith("refused")


def test_a_state_taken_from_a_sibling_is_found() -> None:
    def sibling(tables: PassTables) -> np.ndarray:
        shares = np.bincount(tables.seg_parent[tables.seg_parent >= 0]).max(initial=0) > 1
        return own_rows(tables) + shares

    assert check_passes(sibling, 500) == PassVerdict(packing=True, sharing=False)


def test_order_within_a_pass_is_tried() -> None:
    def by_place(tables: PassTables) -> np.ndarray:
        return own_rows(tables) + (tables.readout_token[:, None] > 2000)

    assert not check_passes(by_place, 500).packing


def test_a_graph_that_keeps_an_earlier_pass_is_found() -> None:
    held: list[np.ndarray] = []

    def stale(tables: PassTables) -> np.ndarray:
        held.append(own_rows(tables))
        return next((old for old in held[:-1] if old.shape == held[-1].shape), held[-1]) + (
            len(held) > 3
        )

    assert check_graphs(own_rows, own_rows, 500)
    assert not check_graphs(own_rows, stale, 500)


def test_a_pass_taken_apart_has_the_rows_it_had() -> None:
    tables = pass_of(check_rows(500), shared=True)
    singles = list(alone(tables))
    queries = np.unique(tables.readout_query)
    assert len(singles) == queries.shape[0] < tables.readout_token.shape[0]
    assert all(single.readout_token[-1] == single.num_tokens - 1 for single in singles)
    counts = [single.readout_token.shape[0] for single in singles]
    assert counts == np.diff(queries, prepend=-1).tolist()
    assert sum(s.num_tokens for s in singles) > tables.num_tokens


def test_verdicts_are_kept_by_identity(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mine = VerdictCache({"device": "A"}, tmp_path / "deep")
    assert mine.read() is None
    mine.write({"24x32": {"canonical": None, "cublaslt": 8}})
    assert VerdictCache({"device": "A"}, tmp_path / "deep").read() == {
        "24x32": {"canonical": None, "cublaslt": 8}
    }
    assert VerdictCache({"device": "B"}, tmp_path / "deep").read() is None
    (next((tmp_path / "deep").iterdir())).write_text("{")
    assert mine.read() is None
    (tmp_path / "file").write_text("")
    VerdictCache({}, tmp_path / "file").write({})
    assert "can't be kept" in caplog.text


def test_what_fell_back_is_counted() -> None:
    products = {
        (1, 2): Verdict(None, 8),
        (3, 4): Verdict(None, None),
        (5, 6): Verdict(None, 8, False),
    }
    report = Report(products, PassVerdict(True, False), False, {"products": 1.234}, True)
    assert report.refused == 3
    said = report.describe()
    assert said["products"]["5x6"] == "canonical"
    assert said["graphs"] == "refused: eager"
    assert said["seconds"] == {"products": 1.23}
