"""Buffers just below, across and above 2^31 elements: the last rows have the bits they have alone,
or the launch is refused. T rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from systone.execute.selfcheck_rows import pass_of
from systone.kernels.attention import triton as attention
from systone.kernels.attention.triton import tile_tokens
from systone.kernels.config import table_of
from systone.kernels.conv.triton import causal_conv_silu
from systone.kernels.gather.triton import gather_rows
from systone.kernels.gdn.triton import gated_delta_rule
from systone.kernels.gemm import cublaslt
from systone.kernels.gemm import triton as canonical
from systone.kernels.norm import triton as norm
from systone.kernels.rope import triton as rope
from systone.kernels.swiglu import triton as swiglu
from systone.kernels.work import WorkTables
from systone.plan import Row, Segment
from tests.gpu.row_checks import draw

BORDER = 2**31
FILLER = 4096  # tokens of the segments before the one that is looked at
LAST = 65
EPS = 1e-6


def rows_around(width: int) -> dict[str, int]:
    """Row counts whose last LAST rows lie below, across and above the border."""
    edge = BORDER // width
    return {"below": edge - 100, "across": edge + LAST // 2, "above": edge + 300}


def filled(rows: int, width: int, last: Tensor) -> Tensor:
    """[rows, width] of ones that ends in `last`."""
    x = torch.ones(rows, width, dtype=torch.bfloat16, device=last.device)
    x[-last.shape[0] :] = last
    return x


def row_operators(device: torch.device) -> dict[str, tuple[int, Callable[[Tensor], Tensor]]]:
    """Width of the operand, and what is computed of it row by row."""
    w, head = draw(4096, device=device), draw(256, device=device)
    cos, sin = draw(LAST, 64, device=device), draw(LAST, 64, device=device)
    turned = lambda x: x.view(-1, 40, 256)  # noqa: E731

    def angles(rows: int) -> tuple[Tensor, Tensor]:
        return filled(rows, 64, cos), filled(rows, 64, sin)

    def taken(x: Tensor) -> Tensor:
        rows = torch.arange(x.shape[0] - LAST, x.shape[0], dtype=torch.int32, device=device)
        return gather_rows(x, rows)

    return {
        "swiglu": (24576, swiglu.swiglu),
        "norm": (4096, lambda x: norm.rms_norm(x, w, EPS)),
        "residual + norm": (4096, lambda x: norm.add_rms_norm(x, x, w, EPS)[0]),
        "gated norm": (
            4096, lambda x: norm.gated_rms_norm(x.view(-1, 32, 128), x, w[:128], EPS).flatten(1)
        ),
        "head norm + rotary": (
            40 * 256,
            lambda x: rope.norm_rope(turned(x), head, *angles(x.shape[0]), EPS).flatten(1),
        ),
        "gather": (4096, taken),
    }  # fmt: skip


@pytest.mark.parametrize("side", ["below", "across", "above"])
@pytest.mark.parametrize(
    "name", ["swiglu", "norm", "residual + norm", "gated norm", "head norm + rotary", "gather"]
)
def test_row_operators(name: str, side: str, device: torch.device) -> None:
    width, operator = row_operators(device)[name]
    last = draw(LAST, width, device=device)
    found = operator(filled(rows_around(width)[side], width, last))[-LAST:]
    assert torch.equal(found, operator(last))


@pytest.mark.parametrize("side", ["below", "across", "above"])
def test_products(side: str, device: torch.device) -> None:
    last, weight = draw(LAST, 512, device=device), draw(24576, 512, device=device)
    x = filled(rows_around(24576)[side], 512, last)
    wanted = canonical.linear(last, weight)
    assert torch.equal(canonical.linear(x, weight)[-LAST:], wanted)
    with cublaslt.exact_blas():
        assert torch.equal(cublaslt.linear(x, weight)[-LAST:], wanted)


def passes(rows: int, device: torch.device) -> tuple[WorkTables, WorkTables]:
    """A pass of `rows` tokens that ends in a segment of LAST, and that segment alone."""
    ids = np.arange(FILLER, dtype=np.int32)
    lengths = [FILLER] * ((rows - LAST) // FILLER) + [(rows - LAST) % FILLER, LAST]
    requests = [[Row((Segment.of(ids[:n]),), 0)] for n in lengths if n]
    tile = tile_tokens(table_of(device)[0], 16, 4)
    whole, alone = (pass_of(r, shared=False) for r in (requests, requests[-1:]))
    assert whole.num_tokens == rows
    return WorkTables.build(whole, tile, device), WorkTables.build(alone, tile, device)


@pytest.mark.parametrize("side", ["below", "across", "above"])
def test_the_operators_that_know_tries(side: str, device: torch.device) -> None:
    for width, operator in (
        (8192, _conv(device)), (8192, _delta(device)), (10240, _attend(device)),
    ):  # fmt: skip
        whole, alone = passes(rows_around(width)[side], device)
        last = draw(LAST, width, device=device)
        found = operator(filled(whole.num_tokens, width, last), whole)[-LAST:].clone()
        assert torch.equal(found, operator(last, alone))
        torch.cuda.empty_cache()


def _conv(device: torch.device) -> Callable[[Tensor, WorkTables], Tensor]:
    weight = draw(8192, 4, device=device)
    return lambda x, tables: causal_conv_silu(x, weight, tables)


def _delta(device: torch.device) -> Callable[[Tensor, WorkTables], Tensor]:
    log, bias = draw(32, device=device), draw(32, device=device)

    def run(x: Tensor, tables: WorkTables) -> Tensor:
        gates = filled(x.shape[0], 64, draw(LAST, 64, device=device))
        return gated_delta_rule(
            x, gates[:, :32], gates[:, 32:], log, bias, tables,
            num_key_heads=16, key_dim=128, value_dim=128,
        ).flatten(1)  # fmt: skip

    return run


def _attend(device: torch.device) -> Callable[[Tensor, WorkTables], Tensor]:
    """x is the fused projection [T, q and gate | k | v]; the last row comes from the read-outs."""

    def run(x: Tensor, tables: WorkTables) -> Tensor:
        heads = x[:, :8192].view(-1, 16, 2, 256)
        keys = x[:, 8192:].view(-1, 2, 4, 256)
        q, gate = heads[:, :, 0].contiguous(), heads[:, :, 1]
        k, v = keys[:, 0].contiguous(), keys[:, 1]
        mixed = attention.trie_attention(q, k, v, gate, tables, scale=1 / 16)
        rows = tables.readout_token.long()
        chosen = attention.readout_attention(q[rows], k, v, gate[rows], tables, scale=1 / 16)
        return torch.cat([mixed[-LAST + 1 :], chosen[-1:]])

    return run
