"""Causal attention over segment tries as plain torch. T tokens, R read-outs, Hq/Hk query/KV heads,
D head width, L tokens of a segment, J keys. Query head i reads KV head i // (Hq / Hk).

A query reads its ancestors' keys in path order, then its own segment up to itself; the products of
a segment have shapes that depend on its own path only.
"""

from __future__ import annotations

import torch
from torch import Tensor

from systone.kernels.outputs import place
from systone.nn.device_tables import DeviceTables

_QUERIES = 256  # queries of one product: a constant, so that blocks depend on the path only


def trie_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gate: Tensor,
    tables: DeviceTables,
    *,
    scale: float,
    out: Tensor | None = None,
) -> Tensor:
    """Attention of every token of the pass, times sigmoid(gate).

    q [T, Hq, D], k and v [T, Hk, D], gate [T, Hq, D] (any strides) -> [T, Hq * D] in q's dtype.
    Scores, softmax and the weighted sum are FP32, rounded once; sigmoid(gate) is rounded to the
    dtype, and so is the product. (A kernel may round probabilities before their product with v.)"""
    result = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    ranges = _key_ranges(tables)
    for path in ranges:
        start, stop = path[-1]
        keys, values = _path_rows(k, path), _path_rows(v, path)
        result[start:stop] = _attend(q[start:stop], keys, values, scale)
    return place((result * torch.sigmoid(gate)).flatten(1), out)


def readout_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gate: Tensor,
    tables: DeviceTables,
    *,
    scale: float,
    out: Tensor | None = None,
) -> Tensor:
    """`trie_attention` for the read-out rows only (the last layer).

    q and gate [R, Hq, D] hold the rows at `readout_token`, k and v [T, Hk, D] every token
    -> [R, Hq * D] in q's dtype; same rounding points."""
    result = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    ranges = _key_ranges(tables)
    tokens, segments = tables.readout_token.tolist(), tables.readout_seg.tolist()
    for row, (token, segment) in enumerate(zip(tokens, segments, strict=True)):
        path = [*ranges[segment][:-1], (ranges[segment][-1][0], token + 1)]
        keys, values = _path_rows(k, path), _path_rows(v, path)
        result[row : row + 1] = _attend(q[row : row + 1], keys, values, scale)
    return place((result * torch.sigmoid(gate)).flatten(1), out)


def _key_ranges(tables: DeviceTables) -> list[list[tuple[int, int]]]:
    """Per segment the (start, stop) token ranges of its path, root first, itself last."""
    start, length = tables.seg_start.tolist(), tables.seg_len.tolist()
    ptr, ancestors = tables.anc_ptr.tolist(), tables.anc_seg.tolist()
    spans = [(s, s + n) for s, n in zip(start, length, strict=True)]
    return [
        [*(spans[a] for a in ancestors[ptr[s] : ptr[s + 1]]), spans[s]] for s in range(len(spans))
    ]


def _path_rows(x: Tensor, path: list[tuple[int, int]]) -> Tensor:
    return torch.cat([x[start:stop] for start, stop in path])


def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """q [L, Hq, D] against k, v [J, Hk, D], the queries being the last L of the J keys
    -> [L, Hq, D] in q's dtype.

    Query heads of one KV head share a product; long segments go in blocks of queries, each over
    the keys it may see, so that the scores stay bounded."""
    groups = k.shape[1]
    keys, values = k.float().permute(1, 2, 0), v.float().transpose(0, 1)
    before = k.shape[0] - q.shape[0]
    rows = []
    for first in range(0, q.shape[0], _QUERIES):
        block = q[first : first + _QUERIES].float().unflatten(1, (groups, -1))
        seen = before + first + block.shape[0]
        scores = torch.einsum("lgrd,gdj->grlj", block, keys[..., :seen]) * scale
        future = torch.ones(block.shape[0], seen, dtype=torch.bool, device=q.device)
        weights = scores.masked_fill(future.triu(before + first + 1), float("-inf")).softmax(-1)
        rows.append(torch.einsum("grlj,gjd->lgrd", weights, values[:, :seen]).flatten(1, 2))
    return torch.cat(rows).to(q.dtype)
