"""Trie attention equals dense causal attention along every path."""

from __future__ import annotations

import torch
from torch import Tensor

from systone.kernels.attention import reference
from systone.nn.device_tables import DeviceTables
from systone.plan.tables import PassTables
from tests.numerics import FP32_OP_REL_L2
from tests.unit.kernels.paths import path_tokens
from tests.unit.nn.naive_tables import naive_tables

HQ, HK, D = 6, 2, 16
SCALE = D**-0.5


def operands(made: torch.Generator, tokens: int) -> dict[str, Tensor]:
    heads = {"q": HQ, "k": HK, "v": HK, "gate": HQ}
    return {n: torch.randn(tokens, h, D, generator=made) * 1.5 for n, h in heads.items()}


def dense(given: dict[str, Tensor], path: list[int]) -> Tensor:
    """Causal attention over the path's tokens in FP64, gated: [len(path), Hq * D]."""
    q, k, v, gate = (given[n][path].double() for n in ("q", "k", "v", "gate"))
    rows = []
    for head in range(HQ):
        scores = q[:, head] @ k[:, head // (HQ // HK)].T * SCALE
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        rows.append(scores.softmax(-1) @ v[:, head // (HQ // HK)])
    return (torch.stack(rows, dim=1) * gate.sigmoid()).flatten(1)


def relative(got: Tensor, expected: Tensor) -> float:
    return ((got.double() - expected).norm() / expected.norm()).item()


def test_every_path_equals_dense_attention(made, tables: PassTables) -> None:
    given = operands(made, tables.num_tokens)
    got = reference.trie_attention(**given, tables=DeviceTables.of(tables), scale=SCALE)
    for segment in range(tables.num_segments):
        path = path_tokens(tables, segment)
        assert relative(got[path], dense(given, path)) <= FP32_OP_REL_L2


def test_long_segments_in_query_blocks(made) -> None:
    tables = naive_tables([[[[3] * 130, [3] * 600]]])
    given = operands(made, 730)
    got = reference.trie_attention(**given, tables=DeviceTables.of(tables), scale=SCALE)
    assert relative(got, dense(given, list(range(730)))) <= FP32_OP_REL_L2


def test_readout_rows_equal_their_rows_of_the_whole(made, tables: PassTables) -> None:
    given = operands(made, tables.num_tokens)
    chosen = torch.tensor(tables.readout_token).long()
    device = DeviceTables.of(tables)
    whole = reference.trie_attention(**given, tables=device, scale=SCALE)[chosen]
    rows = {**given, "q": given["q"][chosen], "gate": given["gate"][chosen]}
    out = torch.empty_like(whole)
    got = reference.readout_attention(**rows, tables=device, scale=SCALE, out=out)
    assert got is out
    assert relative(got, whole.double()) <= FP32_OP_REL_L2


def test_neighbours_never_reach_a_row(made, requests: list, tables: PassTables) -> None:
    given = operands(made, tables.num_tokens)
    first = int(tables.readout_token[len(requests[0]) - 1]) + 1
    alone = reference.trie_attention(
        **{n: x[:first] for n, x in given.items()},
        tables=DeviceTables.of(naive_tables(requests[:1])),
        scale=SCALE,
    )
    for tensor in given.values():
        tensor[first:] = torch.nan
    packed = reference.trie_attention(**given, tables=DeviceTables.of(tables), scale=SCALE)
    assert torch.equal(packed[:first], alone)
