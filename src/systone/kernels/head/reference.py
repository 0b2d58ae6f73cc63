"""Read-out heads in FP32 as plain torch, every dot product in one fixed order.

R rows, M candidates, h hidden width, d pointer width. A row's bits depend on that row alone.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from systone.kernels.outputs import place

LANES = 1024  # partial sums a dot product keeps


def fixed_dot(x: Tensor, y: Tensor) -> Tensor:
    """Sum of x * y over the last axis in FP32: [..., h] with [..., h] (broadcast) -> [...].

    Lane l adds the elements l, l + LANES, l + 2 LANES, ... in that order (a rounded product, then
    a rounded sum); the lanes are then halved pairwise, upper half onto lower, until one is left."""
    products = x.float() * y.float()
    products = pad(products, (0, -products.shape[-1] % LANES))
    blocks = products.unflatten(-1, (-1, LANES))
    lanes = blocks[..., 0, :]
    for block in range(1, blocks.shape[-2]):
        lanes = lanes + blocks[..., block, :]
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = lanes[..., :half] + lanes[..., half:]
    return lanes[..., 0]


def scalar_head(x: Tensor, weight: Tensor, bias: Tensor, *, out: Tensor | None = None) -> Tensor:
    """w . float32(x) + b: x [R, h] FP32 or bf16, weight FP32 [1, h], bias FP32 [1] -> FP32 [R, 1].

    The bias is added once, after the sum."""
    return place((fixed_dot(x, weight[0]) + bias)[:, None], out)


def label_head(x: Tensor, weight: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logits of W label tokens: x [R, h] FP32 or bf16, weight FP32 [W, h], the rows of the
    output matrix for those tokens -> FP32 [R, W]."""
    rows = [fixed_dot(row, weight) for row in x]
    return place(torch.stack(rows) if rows else x.new_empty(0, len(weight)).float(), out)


def pointer_head(
    query_rows: Tensor,
    key_rows: Tensor,
    query_of: Tensor,
    q_weight: Tensor,
    q_bias: Tensor,
    k_weight: Tensor,
    k_bias: Tensor,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """(Wk key + bk) . (Wq query + bq) / sqrt(d) for every candidate (d = 256: divided by 16).

    query_rows [R, h], key_rows [M, h] FP32 or bf16; query_of int32 [M], the query row of each
    candidate; q_weight, k_weight FP32 [d, h]; q_bias, k_bias FP32 [d] -> FP32 [M, 1]."""
    queries = _project(query_rows, q_weight, q_bias)
    keys = _project(key_rows, k_weight, k_bias)
    scores = fixed_dot(keys, queries[query_of.long()]) * (q_weight.shape[0] ** -0.5)
    return place(scores[:, None], out)


def _project(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One output at a time, so that the scratch is [rows, h] and never [rows, d, h]."""
    columns = [fixed_dot(rows, weight[j]) for j in range(weight.shape[0])]
    return torch.stack(columns, dim=-1) + bias
