"""The gated delta rule over a pass as plain torch: chunked within each segment, FP32 throughout.

Hk/Hv key/value heads, Dk/Dv their widths, T tokens, L tokens of a segment, c of a chunk. Value head
j uses key head j // (Hv / Hk). A segment restarts the tiling and starts from its parent's final
state, so what it computes depends on its own tokens and its ancestors', never on its neighbours.

Per token: S = exp(g) S;  S = S + k (beta (v - S^T k))^T;  o = S^T q. The chunked form (Yang et al.,
"Gated Delta Networks", 2024) solves the deltas of a chunk as one unit lower triangular system.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

from systone.kernels.outputs import place
from systone.nn.device_tables import DeviceTables

L2_EPS = 1e-6


def gated_delta_rule(
    qkv: Tensor,
    b: Tensor,
    a: Tensor,
    A_log: Tensor,
    dt_bias: Tensor,
    tables: DeviceTables,
    *,
    num_key_heads: int,
    key_dim: int,
    value_dim: int,
    states: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Outputs of every token of the pass.

    qkv [T, 2 Hk Dk + Hv Dv] after convolution and SiLU (q|k|v), b and a [T, Hv] (raw projections;
    views with a row stride are fine), A_log and dt_bias [Hv] -> [T, Hv, Dv] in qkv's dtype.
    `states` FP32 [slots, Hv, Dk, Dv]: scratch; an inner segment writes its final state to its
    `state_slot`, children read it by `parent_slot`, leaves write none. It needs no clearing.

    Rounding points: beta = sigmoid(b) is rounded to b's dtype; g = -exp(A_log) softplus(a + bias)
    is FP32; q and k are L2-normalised in FP32 (x rsqrt(sum x^2 + 1e-6)), q scaled by Dk^-0.5; the
    output is rounded once."""
    q, k, v = _split_heads(qkv, num_key_heads, key_dim, value_dim)
    beta = torch.sigmoid(b).float()
    g = -torch.exp(A_log.float()) * softplus(a.float() + dt_bias.float())
    heads = v.shape[1]
    if states is None:
        shape = (max(tables.num_states, 1), heads, key_dim, value_dim)
        states = torch.empty(shape, dtype=torch.float32, device=qkv.device)
    result = torch.empty(v.shape, dtype=qkv.dtype, device=qkv.device)
    zero = torch.zeros(heads, key_dim, value_dim, dtype=torch.float32, device=qkv.device)
    for start, chunks, parent, slot in _schedule(tables):
        state = zero if parent < 0 else states[parent]
        for length, tile in chunks:
            part = slice(start, start + length)
            rows, state = _chunk(q[part], k[part], v[part], g[part], beta[part], state, tile)
            result[part] = rows.to(qkv.dtype)
            start += length
        if slot >= 0:
            states[slot] = state
    return place(result, out)


def _schedule(tables: DeviceTables) -> list[tuple[int, list[tuple[int, int]], int, int]]:
    """Segments in launch order (inner ones by depth, then leaves): first token, the (length, tile)
    of each chunk, the parent's state slot, its own state slot."""
    order = tables.inner_seg.tolist() + tables.leaf_seg.tolist()
    chunks = list(zip(tables.chunk_len.tolist(), tables.chunk_tile.tolist(), strict=True))
    start, ptr = tables.seg_start.tolist(), tables.seg_chunk_ptr.tolist()
    parent, slot = tables.parent_slot.tolist(), tables.state_slot.tolist()
    return [(start[s], chunks[ptr[s] : ptr[s + 1]], parent[s], slot[s]) for s in order]


def _split_heads(
    qkv: Tensor, num_key_heads: int, key_dim: int, value_dim: int
) -> tuple[Tensor, Tensor, Tensor]:
    """FP32 q, k [T, Hv, Dk] (normed, repeated to the value heads, q scaled) and v [T, Hv, Dv]."""
    width = num_key_heads * key_dim
    q, k, v = qkv.float().split([width, width, qkv.shape[1] - 2 * width], dim=-1)
    v = v.unflatten(-1, (-1, value_dim))
    repeats = v.shape[1] // num_key_heads
    q, k = (_l2_norm(x.unflatten(-1, (-1, key_dim))) for x in (q, k))
    q = q * key_dim**-0.5
    return q.repeat_interleave(repeats, dim=1), k.repeat_interleave(repeats, dim=1), v


def _l2_norm(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + L2_EPS)


def _chunk(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, tile: int
) -> tuple[Tensor, Tensor]:
    """One chunk of c <= tile tokens, padded with zeros to `tile`, which change nothing.

    q, k [c, Hv, Dk], v [c, Hv, Dv], g, beta [c, Hv], state [Hv, Dk, Dv]
    -> outputs [c, Hv, Dv], state after the chunk."""
    length = q.shape[0]
    q, k, v = (pad(x, (0, 0, 0, 0, 0, tile - length)).transpose(0, 1) for x in (q, k, v))
    g, beta = (pad(x, (0, 0, 0, tile - length)).T for x in (g, beta))

    decay = g.cumsum(-1)  # log decay from the chunk's start, through each token
    gap = decay[:, :, None] - decay[:, None, :]
    future = torch.ones(tile, tile, dtype=torch.bool, device=q.device).triu(1)
    pairwise = gap.masked_fill(future, float("-inf")).exp()  # masked first: gaps ahead overflow

    k_beta = k * beta[:, :, None]
    carried = decay.exp()[:, :, None]
    system = (k_beta @ k.transpose(1, 2)) * pairwise
    right = torch.cat([v * beta[:, :, None], k_beta * carried], dim=-1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    fresh, reads = solved.split([v.shape[-1], k.shape[-1]], dim=-1)

    delta = fresh - reads @ state
    inside = (q @ k.transpose(1, 2)) * pairwise
    rows = (q * carried) @ state + inside @ delta
    remaining = (decay[:, -1:] - decay).exp()[:, :, None]
    state = state * decay[:, -1].exp()[:, None, None] + (k * remaining).transpose(1, 2) @ delta
    return rows[:, :length].transpose(0, 1), state
