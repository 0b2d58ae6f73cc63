"""Unit queries and keys: what the convolution leaves for the gated delta rule."""

from __future__ import annotations

import torch

from systone.kernels.conv import reference as conv_reference
from systone.kernels.conv import triton as conv
from systone.kernels.gdn import triton as gdn
from tests.gpu.cases import Inputs, beyond, leaves, relative, rows_of, work
from tests.gpu.trie_checks import GdnCase, row_tokens

CPU = torch.device("cpu")
WIDTH, UNITS = 384, 256  # one query, one key and one value head


def test_the_convolution_writes_unit_rows_in_place_of_queries_and_keys() -> None:
    tables, on_device = work([leaves(9, 2, [1, 12])], CPU)
    x, weight = beyond(Inputs().rows(tables, "conv", WIDTH, CPU)), torch.randn(WIDTH, 4).bfloat16()
    units, out = torch.empty(tables.num_tokens, UNITS, dtype=torch.float16), x.clone()
    conv.causal_conv_silu(x, weight, on_device, out=out, units=units)
    plain = conv_reference.causal_conv_silu(x, weight, on_device)
    heads = plain[:, :UNITS].float().view(-1, 2, 128)
    heads *= torch.rsqrt(heads.square().sum(-1, keepdim=True) + 1e-6)
    assert relative(units.view(-1, 2, 128), heads) < 1e-3
    assert torch.equal(out[:, UNITS:], plain[:, UNITS:])
    assert torch.equal(out[:, :UNITS], x[:, :UNITS])  # untouched


def test_a_row_has_the_same_bits_wherever_its_runs_of_tokens_fall(monkeypatch) -> None:
    inputs, weight = Inputs(), torch.randn(WIDTH, 4).bfloat16()
    made = []
    for before, short in ((1, True), (1, False), (4, False), (8, False)):
        monkeypatch.setattr(conv, "_SHORT_ROWS", 512 if short else 0)
        requests = [rows_of([[before]], seed=7), rows_of([[21, 2]], seed=3)]
        tables, on_device = work(requests, CPU)
        x = beyond(inputs.rows(tables, "conv", WIDTH, CPU))
        units = torch.empty(tables.num_tokens, UNITS, dtype=torch.float16)
        out = conv.causal_conv_silu(x, weight, on_device, units=units)
        mine = row_tokens(tables, 1)
        made.append((units[mine], out[mine][:, UNITS:]))
    for other in made[1:]:
        assert all(torch.equal(a, b) for a, b in zip(made[0], other, strict=True))


def test_ready_unit_rows_take_the_place_of_those_columns() -> None:
    tables, on_device = work([leaves(3, 1, [2, 17])], CPU)
    case = GdnCase.of(tables, Inputs(), 1, 2, CPU)
    wanted = case.run(on_device)
    scratch = gdn.GdnScratch.empty(tables.num_tokens, tables.num_states, 1, 2, CPU)
    rows = case.qkv[:, :256].float().view(-1, 2, 1, 128)
    unit = rows * torch.rsqrt(rows.square().sum(-1, keepdim=True) + 1e-6)
    scratch.units.copy_(unit.half())
    case.qkv[:, :256] = float("nan")
    found = gdn.gated_delta_rule(
        case.qkv, case.b, case.a, case.log, case.bias, on_device,
        num_key_heads=1, key_dim=128, value_dim=128, scratch=scratch, units_ready=True,
    )  # fmt: skip
    assert relative(found, wanted) < 1e-4
