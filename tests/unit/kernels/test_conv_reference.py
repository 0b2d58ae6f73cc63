"""The convolution reads a token's predecessors along its path, whatever segments they are in."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import conv1d, silu

from systone.kernels.conv.reference import causal_conv_silu
from systone.nn.device_tables import DeviceTables
from systone.plan.tables import PassTables
from tests.unit.kernels.paths import path_tokens

CHANNELS = 10


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_path_equals_a_plain_convolution(made, tables: PassTables, dtype) -> None:
    wide = torch.randn(tables.num_tokens, CHANNELS + 3, generator=made).to(dtype)
    x = wide[:, :CHANNELS]  # a view with a row stride, as a fused projection gives
    weight = torch.randn(CHANNELS, 4, generator=made).to(dtype)
    got = causal_conv_silu(x, weight, DeviceTables.of(tables))
    assert got.dtype == dtype
    for segment in range(tables.num_segments):
        path = path_tokens(tables, segment)
        padded = torch.nn.functional.pad(x[path].double().T, (3, 0))
        summed = conv1d(padded, weight.double()[:, None], groups=CHANNELS).T
        expected = silu(summed.to(dtype)).double()
        step = 2e-6 if dtype == torch.float32 else 2**-7
        assert torch.allclose(got[path].double(), expected, rtol=step, atol=step)


def test_a_neighbours_nan_stays_with_it(made, tables: PassTables) -> None:
    x = torch.randn(tables.num_tokens, CHANNELS, generator=made)
    weight = torch.randn(CHANNELS, 4, generator=made)
    clean = causal_conv_silu(x, weight, DeviceTables.of(tables))
    last_root = int(tables.seg_start[tables.seg_parent < 0][-1])
    x[0] = x[last_root - 1] = torch.nan  # index 0 stands in for "no predecessor"
    got = causal_conv_silu(x, weight, DeviceTables.of(tables))
    assert torch.equal(got[last_root:], clean[last_root:])
