"""The chunked gated delta rule equals the token recurrence along every path."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from systone.kernels.gdn.reference import gated_delta_rule
from systone.nn.device_tables import DeviceTables
from systone.plan.tables import PassTables
from tests.numerics import FP32_OP_REL_L2
from tests.unit.kernels.paths import path_tokens
from tests.unit.nn.naive_tables import naive_tables

HK, HV, DK, DV = 2, 6, 16, 24


def operands(made: torch.Generator, tokens: int, dtype: torch.dtype = torch.float32) -> dict:
    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=made)

    forget = torch.logspace(-0.3, -3.3, HV)
    return {
        "qkv": normal(tokens, 2 * HK * DK + HV * DV).to(dtype),
        "b": normal(tokens, HV).to(dtype),
        "a": (0.3 * normal(tokens, HV)).to(dtype),
        "A_log": torch.log(-torch.log1p(-forget)),
        "dt_bias": 0.5 + 0.1 * normal(HV),
        "num_key_heads": HK,
        "key_dim": DK,
        "value_dim": DV,
    }


def recurrence(given: dict, path: list[int]) -> Tensor:
    """One token after the other in FP64, from a zero state: [len(path), Hv, Dv]."""
    wide = {k: v.double() for k, v in given.items() if isinstance(v, Tensor)}
    q, k, v = wide["qkv"].split([HK * DK, HK * DK, HV * DV], dim=1)
    q, k = (x.view(-1, HK, DK).repeat_interleave(HV // HK, dim=1) for x in (q, k))
    q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    q, v = q / DK**0.5, v.view(-1, HV, DV)
    beta = torch.sigmoid(given["b"]).double()
    decay = torch.exp(-wide["A_log"].exp() * softplus(wide["a"] + wide["dt_bias"]))
    state, rows = torch.zeros(HV, DK, DV, dtype=torch.float64), []
    for t in path:
        state = state * decay[t][:, None, None]
        known = torch.einsum("hkv,hk->hv", state, k[t])
        state = state + torch.einsum("hk,hv->hkv", k[t], beta[t][:, None] * (v[t] - known))
        rows.append(torch.einsum("hkv,hk->hv", state, q[t]))
    return torch.stack(rows)


def run(given: dict, tables: PassTables, **changes: Tensor) -> Tensor:
    return gated_delta_rule(tables=DeviceTables.of(tables), **{**given, **changes})


def relative(got: Tensor, expected: Tensor) -> float:
    return ((got.double() - expected).norm() / expected.norm()).item()


def test_every_path_equals_the_recurrence(made, tables: PassTables) -> None:
    given = operands(made, tables.num_tokens)
    got = run(given, tables)
    for segment in range(tables.num_segments):
        path = path_tokens(tables, segment)
        assert relative(got[path], recurrence(given, path)) <= FP32_OP_REL_L2


@pytest.mark.parametrize("cuts", [(200,), (64, 136), (63, 1, 1, 135), (100, 100), (1,) * 200])
def test_cutting_a_path_changes_rounding_only(made, cuts: tuple[int, ...]) -> None:
    given = operands(made, 200)
    tables = naive_tables([[[[7] * n for n in cuts]]])
    assert relative(run(given, tables), recurrence(given, list(range(200)))) <= FP32_OP_REL_L2


def test_a_fork_at_a_chunk_mark_keeps_every_bit(made) -> None:
    given = operands(made, 200)
    whole, forked = naive_tables([[[[7] * 200]]]), naive_tables([[[[7] * 128, [7] * 72]]])
    assert torch.equal(run(given, whole), run(given, forked))


def test_neighbours_never_reach_a_row(made, requests: list, tables: PassTables) -> None:
    """A request's outputs are the same bits alone as in company of NaN."""
    given = operands(made, tables.num_tokens)
    first = int(tables.readout_token[len(requests[0]) - 1]) + 1
    alone = run(
        {k: v[:first] if k in ("qkv", "a", "b") else v for k, v in given.items()},
        naive_tables(requests[:1]),
    )
    poisoned = {k: given[k].clone() for k in ("qkv", "a", "b")}
    for tensor in poisoned.values():
        tensor[first:] = torch.nan
    assert torch.equal(run(given, tables, **poisoned)[:first], alone)


def test_states_hold_final_states_of_inner_segments_only(made, tables: PassTables) -> None:
    given = operands(made, tables.num_tokens)
    states = torch.full((tables.num_states + 1, HV, DK, DV), torch.nan)
    out = torch.empty(tables.num_tokens, HV, DV)
    got = run(given, tables, states=states, out=out)
    assert got is out
    assert torch.equal(got, run(given, tables))
    assert states[:-1].isfinite().all()
    assert states[-1].isnan().all()


def test_bf16_is_rounded_once_at_the_end(made, tables: PassTables) -> None:
    given = operands(made, tables.num_tokens, torch.bfloat16)
    wide = {k: given[k].float() for k in ("qkv", "a", "b")}
    rounded_beta = torch.logit(torch.sigmoid(given["b"]).float())  # beta is rounded as well
    expected = run(given, tables, **{**wide, "b": rounded_beta})
    got = run(given, tables)
    assert got.dtype == torch.bfloat16
    assert (got.float() - expected).abs().max() <= expected.abs().max() * 2**-8


def test_a_wrong_parent_state_shows(made, tables: PassTables) -> None:
    """The comparison above can fail: here it does."""
    given = operands(made, tables.num_tokens)
    lost = replace(tables, parent_slot=tables.parent_slot * 0 - 1)
    segment = int(tables.leaf_seg[0])
    path = path_tokens(tables, segment)
    assert relative(run(given, lost)[path], recurrence(given, path)) > 100 * FP32_OP_REL_L2
