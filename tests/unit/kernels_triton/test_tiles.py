"""Which tile a shape gets, and where the gated product is one launch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from systone.execute import gpu_gemm
from systone.execute.buckets import row_bucket
from systone.execute.gpu_gemm import Products
from systone.kernels import config
from systone.kernels.gemm import gated, measured
from systone.kernels.gemm import reference as gemm_reference
from systone.kernels.gemm.tiles import GemmTile, Rates, quickest, quickest_gated
from systone.kernels.swiglu import reference as swiglu_reference

SMALL, LARGE = GemmTile(64, 64, 64, 4, 4, 3.0), GemmTile(128, 256, 64, 8, 3, 12.0)
TABLES = [config.SM80, config.SM89, config.SM90, config.SM100, config.SM120]


def test_the_tile_of_the_cheapest_rounds_is_taken() -> None:
    assert quickest((SMALL, LARGE), 64, 4096, 132) is SMALL  # one round of either
    assert quickest((SMALL, LARGE), 1024, 4096, 132) is LARGE  # one round, eight of the small
    assert quickest((SMALL, LARGE), 4096, 4096, 132).group > SMALL.group


@pytest.mark.parametrize("outputs", [4096, 10240, 12352, 24576])
@pytest.mark.parametrize("rows", [1, 64, 192, 1024, 8192])
def test_no_tile_of_a_table_costs_less(rows: int, outputs: int) -> None:
    for table in TABLES:
        tile = table.gemm_tile(rows, outputs, 132)
        spent = tile.rounds(rows, outputs, 132) * tile.cost
        assert all(spent <= t.rounds(rows, outputs, 132) * t.cost for t in table.gemm)


def test_columns_that_fill_every_multiprocessor_win() -> None:
    tile = config.SM90.gemm_tile(64, 10240, 132)
    assert (tile.columns + tile.rest, tile.rounds(64, 10240, 132)) == (80, 1)


def test_uneven_rounds_keep_two_launches() -> None:
    tiles, rates = (GemmTile(128, 128, 64, 8, 4, 11.6),), Rates(11.5, 3.75e6)
    assert quickest_gated(tiles, rates, 512, 12288, 132) is tiles[0]
    assert quickest_gated(tiles, rates, 512, 17408, 132) is None  # 4.1 rounds
    assert quickest_gated((), rates, 512, 12288, 132) is None


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_every_tile_fits_its_generation(table: config.KernelConfig) -> None:
    for tile, times in [(t, 1) for t in table.gemm] + [(t, 2) for t in table.gated]:
        width = (tile.columns + tile.rest) * times
        loaded = tile.stages * (tile.rows + width) * tile.depth * 2
        stored = tile.rows * (tile.columns + tile.rest) * 2 // (2 if tile.halves else 1)
        assert loaded + (stored if tile.persistent and table.descriptors else 0) < (
            table.shared_kib * 1024
        )
        assert not (tile.rest and tile.persistent)
        assert table.descriptors or not (tile.rest or tile.halves)


@pytest.mark.parametrize(("rows", "library"), [(64, True), (128, False), (192, True), (256, False)])
def test_ours_multiplies_where_it_was_measured_to_be_quicker(
    rows: int, library: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = replace(config.SM90, hopper_gdn=False, quicker={(8, 16): frozenset({128, 256})})
    monkeypatch.setattr(config, "SM90", table)
    called = []
    for name in ("cublaslt", "canonical"):
        backend = getattr(gpu_gemm, name)
        monkeypatch.setattr(backend, "linear", lambda *_, name=name, out: called.append(name))
    x, weight, out = torch.empty(rows, 16), torch.empty(8, 16), torch.empty(rows, 8)
    Products(fast={(8, 16)}).linear(x, weight, out)
    assert called == ["cublaslt" if library else "canonical"]


def test_uneven_rounds_are_one_launch_where_that_was_measured_to_be_quicker() -> None:
    rows, outputs, inputs = 448, 12288, 4096
    assert config.SM90.gated_tile(rows, outputs, inputs, 132) is not None
    plain = replace(config.SM90, gated_quicker={})
    assert plain.gated_tile(rows, outputs, inputs, 132) is None
    assert config.SM90.gated_tile(320, outputs, inputs, 132) is None


def test_measured_row_counts_are_buckets() -> None:
    for found in (measured.HOPPER_QUICKER, measured.HOPPER_GATED_QUICKER):
        for rows in found.values():
            assert {row_bucket(m) for m in rows} == rows


@pytest.mark.parametrize("quick", [True, False])
def test_products_activate_in_one_launch_or_two(
    quick: bool, small_tiles: config.KernelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, weight = torch.randn(5, 64).bfloat16(), torch.randn(2 * 40, 64).bfloat16()
    wide = torch.full((5, 80), torch.nan, dtype=torch.bfloat16)
    tile = GemmTile(16, 32, 64, 4, 2, 1.0) if quick else None
    monkeypatch.setattr(config.KernelConfig, "gated_tile", lambda *_: tile)
    products = Products(gated={(80, 64)})
    found = products.activated(x, weight, wide, torch.empty(5, 40, dtype=torch.bfloat16))
    assert wide.isnan().all() == quick
    expected = swiglu_reference.swiglu(gemm_reference.linear(x, weight))
    assert (found.float() - expected.float()).norm() < 1e-2 * expected.float().norm()
    assert torch.equal(found, gated.gated_with(x, weight, None, GemmTile(16, 32, 64, 4, 2, 1), 4))
    assert products.describe() == {"80x64": "canonical, gated where quicker"}
